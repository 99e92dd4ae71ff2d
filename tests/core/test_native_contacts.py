"""The compiled potential of contacts gives numpy's results."""

from __future__ import annotations

import numpy as np
import pytest
from contact_cases import COUNT, NODES, random_rows

from dampsim.core.contact.penalty_and_friction import (
    CompiledContactPotential,
    ContactPotential,
    ContactSet,
    contact_potential,
)
from dampsim.core.native import library as native

pytestmark = pytest.mark.kernel


def both(rows: ContactSet, pressing: np.ndarray) -> tuple[CompiledContactPotential, ContactPotential]:
    compiled = contact_potential(rows, pressing)
    assert isinstance(compiled, CompiledContactPotential)
    return compiled, ContactPotential(rows, pressing)


def full_pattern(slots: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the pattern of a dense matrix for nodes in slots (n,)."""
    count = int(slots.max()) + 1
    starts = count * np.arange(count + 1, dtype=np.int32)
    return slots.astype(np.int32), starts, np.tile(np.arange(count, dtype=np.int32), count)


@pytest.mark.parametrize("seed", range(20))
def test_compiled_contacts_match_numpy(kernel: native.KernelLibrary, seed: int) -> None:
    rows, pressing, x = random_rows(seed)
    compiled, expected = both(rows, pressing)
    value, gradient = compiled.value_gradient(x)
    expected_value, expected_gradient = expected.value_gradient(x)
    np.testing.assert_allclose(value, expected_value, rtol=1e-12)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-11 * np.abs(expected_gradient).max())
    np.testing.assert_array_equal(compiled.contact_states(x), expected.contact_states(x))
    assert set(np.unique(compiled.contact_states(x) % 4)) == {0, 1, 2}
    assert set(np.unique(compiled.contact_states(x) // 4)) == {0, 1}
    for name in ("gap", "force", "slip", "offset"):
        one, other = (getattr(potential.forces_at(x), name) for potential in (compiled, expected))
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-11 * np.abs(other).max(), err_msg=name)
    compiled, expected = compiled.with_normal_forces_at(x), expected.with_normal_forces_at(x)
    np.testing.assert_allclose(compiled.value_gradient(x)[0], expected.value_gradient(x)[0], rtol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_compiled_contact_blocks_match_numpy(kernel: native.KernelLibrary, seed: int) -> None:
    """Two nodes are pinned, and the rows of the others are permuted."""
    rows, pressing, x = random_rows(seed)
    compiled, expected = both(rows, pressing)
    slots = np.array([2, -1, 0, 4, 1, -1, 3])
    blocks = np.zeros((25, 3, 3))
    assert compiled.add_blocks(compiled.evaluate(x), 0.5, full_pattern(slots), blocks) == 0
    free = np.argsort(slots)[2:]
    dof = (3 * free[:, None] + np.arange(3)).ravel()
    dense = blocks.reshape(5, 5, 3, 3).transpose(0, 2, 1, 3).reshape(15, 15)
    wanted = 0.5 * expected.hessian(x).toarray()[np.ix_(dof, dof)]
    np.testing.assert_allclose(dense, wanted, atol=1e-12 * np.abs(wanted).max())


def test_missing_contact_blocks_change_nothing(kernel: native.KernelLibrary) -> None:
    """Only the diagonal is stored."""
    rows, pressing, x = random_rows(0)
    compiled, _ = both(rows, pressing)
    index, blocks = np.arange(NODES, dtype=np.int32), np.zeros((NODES, 3, 3))
    missing = compiled.add_blocks(
        compiled.evaluate(x), 1.0, (index, np.arange(NODES + 1, dtype=np.int32), index), blocks
    )
    # Each contact has four nodes.
    assert missing == 12 * len(compiled.active_contacts(compiled.evaluate(x)))
    assert not blocks.any()


def test_compiled_contacts_refuse_wrong_arguments(kernel: native.KernelLibrary) -> None:
    rows, pressing, x = random_rows(0)
    compiled, _ = both(rows, pressing)
    with pytest.raises(ValueError, match="positions"):
        compiled.value_gradient(x[:-1])
    with pytest.raises(ValueError, match="limits"):
        both(rows, np.zeros((COUNT, 1)))[0].value_gradient(x)
    slots, starts, columns = full_pattern(np.arange(NODES))
    blocks = np.zeros((NODES**2, 3, 3))
    for pattern, match in (
        ((slots + 1, starts, columns), "rows of nodes"),
        ((slots, starts, columns[1:]), "divide"),
        ((slots.astype(np.int64), starts, columns), "32-bit"),
    ):
        with pytest.raises(ValueError, match=match):
            compiled.add_blocks(compiled.evaluate(x), 1.0, pattern, blocks)
    with pytest.raises(ValueError, match="blocks"):
        compiled.add_blocks(compiled.evaluate(x), 1.0, (slots, starts, columns), blocks[1:])
    weights = rows.weights.copy()
    weights.indices[0] = NODES
    with pytest.raises(ValueError, match="weights of contacts refer"):
        contact_potential(ContactSet(**{**vars(rows), "weights": weights}), pressing)
