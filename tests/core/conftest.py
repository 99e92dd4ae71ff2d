"""Fixtures for the core."""

from __future__ import annotations

import os

import pytest

from dampsim.core.native import interface, library


@pytest.fixture
def kernel() -> library.KernelLibrary:
    """Return the compiled kernel. Skip the test without it, except in continuous integration."""
    found = library.load_library()
    if found is None and (os.environ.get(interface.KERNEL_VARIABLE) == "0" or not os.environ.get("DAMPSIM_CI")):
        pytest.skip("the kernel was left out, or not compiled here")
    assert found is not None
    return found
