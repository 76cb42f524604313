"""One file -> a square: where the pixels come from, and what is not an image."""

import numpy as np
import pytest
from image_samples import noisy_jpeg, picture
from PIL import Image

from curvewise.data.image_files import decode

RED, BLUE = (255, 0, 0), (0, 0, 255)


@pytest.mark.parametrize(("width", "height"), [(40, 40), (100, 40), (40, 100), (10, 7), (7, 10)])
def test_short_side_is_resized_and_the_centre_kept(tmp_path, width, height):
    """The centre square of the original is red, all else blue: the result is all red."""
    image = Image.new("RGB", (width, height), BLUE)
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    image.paste(Image.new("RGB", (side, side), RED), (left, top))
    image.save(tmp_path / "a.png")
    pixels = decode(tmp_path / "a.png", 16)
    assert pixels.shape == (3, 16, 16)
    assert pixels.dtype == np.uint8
    inner = pixels[:, 2:-2, 2:-2]  # an odd rest leaves half a pixel of blue at an edge
    np.testing.assert_array_equal(inner.reshape(3, -1).T, np.tile(RED, (144, 1)))
    noise = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "b.png")  # of the right size: it is left alone
    np.testing.assert_array_equal(decode(tmp_path / "b.png", 16), noise.transpose(2, 0, 1))


def test_a_large_jpeg_decoded_small_looks_the_same_and_its_orientation_is_applied(tmp_path):
    path = noisy_jpeg(tmp_path / "a.jpg", seed=0, size=(1600, 1200))
    with Image.open(path) as image:
        square = image.convert("RGB").crop((200, 0, 1400, 1200))
        whole = np.asarray(square.resize((64, 64), Image.Resampling.BOX)).transpose(2, 0, 1)
    difference = np.abs(decode(path, 64).astype(int) - whole)
    assert difference.mean() < 1.5
    assert difference.max() < 16
    # Red above blue, stored turned by a quarter with a note to turn it back.
    image = Image.new("RGB", (32, 32), RED)
    image.paste(Image.new("RGB", (32, 16), BLUE), (0, 16))
    exif = Image.Exif()
    exif[0x0112] = 6
    image.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "a.jpg", exif=exif, quality=95)
    pixels = decode(tmp_path / "a.jpg", 16)
    assert pixels[0, 3].min() > 240
    assert pixels[2, -4].min() > 240


@pytest.mark.parametrize("mode", ["L", "1", "P", "RGBA", "LA", "CMYK", "I;16"])
def test_every_mode_becomes_rgb(tmp_path, mode):
    suffix = "jpg" if mode == "CMYK" else "png"
    if mode == "I;16":
        image = Image.fromarray(np.full((20, 20), 128 * 256 + 77, np.uint16))
    else:
        image = Image.new("RGB", (20, 20), (128, 128, 128)).convert(mode)
    image.save(tmp_path / f"a.{suffix}")
    pixels = decode(tmp_path / f"a.{suffix}", 8)
    assert pixels.shape == (3, 8, 8)
    if mode != "1":
        assert np.abs(pixels.astype(int) - 128).max() <= 3


def test_what_is_not_an_image_gives_a_reason(tmp_path):
    empty, text = tmp_path / "empty.jpg", tmp_path / "text.jpg"
    empty.touch()
    text.write_text("not an image")
    assert decode(empty, 8) == "the file is empty"
    assert "cannot identify image file" in decode(text, 8)
    for suffix in ("jpg", "png"):
        path = picture(tmp_path / f"cut.{suffix}", (1, 2, 3), (300, 300))
        path.write_bytes(path.read_bytes()[:-40])
        assert "truncated" in decode(path, 8)
    fractions = tmp_path / "fractions.tif"
    Image.fromarray(np.ones((4, 4), np.float32)).save(fractions)
    assert "fractions" in decode(fractions, 8)
    assert "No such file" in decode(tmp_path / "none.jpg", 8)
