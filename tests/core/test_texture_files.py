"""Image files of vertex animation textures; tests/addon/test_vertex_textures.py reads them with Blender."""

from __future__ import annotations

import numpy as np
import pytest

from dampsim.core.frames.texture_files import decode_exr, decode_png, encode_exr, encode_png


def image(height: int = 5, width: int = 7) -> np.ndarray:
    return np.random.default_rng(3).uniform(-2.0, 3.0, (height, width, 3))


def test_exr_returns_values() -> None:
    values = image()
    np.testing.assert_array_equal(decode_exr(encode_exr(values)), values.astype(np.float32))
    np.testing.assert_array_equal(decode_exr(encode_exr(values.astype(np.float16))), values.astype(np.float16))


def test_png_rounds_to_16_bits() -> None:
    values = (image() + 2.0) / 5.0
    np.testing.assert_allclose(decode_png(encode_png(values)), values, atol=0.5000001 / 65535.0)
    np.testing.assert_array_equal(decode_png(encode_png(np.array([[[-1.0, 0.0, 2.0]]]))), [[[0.0, 0.0, 1.0]]])


@pytest.mark.parametrize(("encode", "decode"), [(encode_exr, decode_exr), (encode_png, decode_png)])
def test_damaged_files_are_refused(encode: object, decode: object) -> None:
    whole = encode(np.clip(image(), 0.0, 1.0))  # type: ignore[operator]
    for data in (b"", whole[:20], whole[: len(whole) // 2], b"x" + whole[1:]):
        with pytest.raises(ValueError):  # noqa: PT011
            decode(data)  # type: ignore[operator]
