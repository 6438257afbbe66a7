#!/usr/bin/env python3
"""Image files decode to Pillow's pixels, and resize to Pillow's pixels.

    pillow_test.py path/to/autotrain_tests

Skipped (77) where Pillow is missing. All but JPEG must be equal; JPEG within one level, since Pillow brings a libjpeg-turbo of
its own; resized images within one level, since Pillow rounds between its two passes.
"""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
    from PIL import Image, ImageOps
    from safetensors.numpy import save_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TESTS = Path(sys.argv[1]).resolve()
RANDOM = np.random.default_rng(1)


def noise(height, width, *channels, kind=np.uint8):
    return RANDOM.integers(0, np.iinfo(kind).max, (height, width, *channels), endpoint=True).astype(kind)


def photograph(height, width):
    """Smooth colours with edges and some noise."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [128 + 100 * np.sin(x / 9 + c) * np.cos(y / (7 + c)) + 40 * ((x // 16 + y // 16) % 2) for c in range(3)]
    return np.clip(np.stack(planes, -1) + RANDOM.normal(0, 6, (height, width, 3)), 0, 255).astype(np.uint8)


def image_files():
    """name → (Pillow image, options to save it with)."""
    colours, grey = Image.fromarray(photograph(83, 119)), Image.fromarray(photograph(61, 47)).convert("L")
    rgb, alpha = Image.fromarray(noise(19, 23, 3)), Image.fromarray(noise(19, 23, 4))
    return {
        "grey.jpg": (grey, {"quality": 90}),
        "444.jpg": (colours, {"quality": 92, "subsampling": 0}),
        "422.jpg": (colours, {"quality": 75, "subsampling": 1}),
        "420.jpg": (colours, {"quality": 75, "subsampling": 2}),
        "420_odd.jpg": (Image.fromarray(photograph(17, 33)), {"quality": 60, "subsampling": 2}),
        "progressive.jpg": (colours, {"quality": 85, "progressive": True}),
        "restarts.jpg": (colours, {"quality": 85, "restart_marker_rows": 1}),
        "cmyk.jpg": (colours.convert("CMYK"), {"quality": 95}),
        "rgb.png": (rgb, {}),
        "palette.png": (Image.fromarray(photograph(31, 37)).quantize(17), {}),
        "palette_transparent.png": (Image.fromarray(photograph(31, 37)).quantize(200), {"transparency": 3}),
        "bilevel.png": (grey.convert("1"), {}),
        "grey.png": (grey, {}),
        "grey_alpha.png": (Image.fromarray(noise(11, 13, 2), "LA"), {}),
        "rgba.png": (alpha, {}),
        "grey16.png": (Image.fromarray(noise(9, 14, kind=np.uint16)), {}),
        "lossless.webp": (rgb, {"lossless": True}),
        "lossless_alpha.webp": (alpha, {"lossless": True, "exact": True}),
        "rgb.tiff": (rgb, {}),
        "deflated.tiff": (rgb, {"compression": "tiff_adobe_deflate"}),
        "lzw_grey.tif": (grey, {"compression": "tiff_lzw"}),
        "fax.tif": (grey.convert("1"), {"compression": "group4"}),
        "palette.tif": (Image.fromarray(photograph(31, 37)).quantize(17), {}),
        "grey16.tif": (Image.fromarray(noise(9, 14, kind=np.uint16)), {}),
        "rgb.bmp": (rgb, {}),
        "grey.bmp": (grey, {}),
        "palette.bmp": (Image.fromarray(photograph(31, 37)).quantize(17), {}),
        "bilevel.bmp": (grey.convert("1"), {}),
        **{f"turned{i}.{ending}": (rgb, {"exif": exif(i), **options}) for i in range(2, 9)
           for ending, options in [("png", {}), ("webp", {"lossless": True}), ("tif", {})]},
    }


def exif(orientation):
    made = Image.Exif()
    made[0x0112] = orientation
    return made


def laid(pixels):
    """Colours or grey with alpha as last channel, on white, or on black where all that is seen is nearly white."""
    colours, alpha = pixels[..., :-1].astype(np.uint32), pixels[..., -1:].astype(np.uint32)
    if alpha.min() == alpha.max():
        return pixels[..., :-1].copy()
    seen = colours.min(-1)[alpha[..., 0] >= 128]
    ground = 0 if (seen >= 224).all() else 255
    return ((colours * alpha + ground * (255 - alpha) + 127) // 255).astype(np.uint8)


def expected_pixels(path):
    with Image.open(path) as image:
        if image.mode.startswith("I;16"):
            return (np.asarray(image) >> 8).astype(np.uint8)[..., None]
        if image.mode == "LA":
            return laid(np.asarray(image))
        if image.mode == "RGBA" or "transparency" in image.info:
            return laid(np.asarray(image.convert("RGBA")))
        image = ImageOps.exif_transpose(image)
        pixels = np.asarray(image.convert("L" if image.mode in ("L", "1") else "RGB"))
        return pixels[..., None] if pixels.ndim == 2 else pixels


class Pillow(unittest.TestCase):
    def run_against(self, test, variable, folder):
        out = subprocess.run([TESTS, f"--gtest_filter={test}"], capture_output=True, text=True,
                             env={**os.environ, variable: str(folder)})
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        self.assertIn("[  PASSED  ] 1 test", out.stdout)

    def test_files_decode_alike(self):
        with tempfile.TemporaryDirectory() as folder:
            expected = {}
            for name, (image, options) in image_files().items():
                image.save(Path(folder, name), **options)
                expected[name] = np.ascontiguousarray(expected_pixels(Path(folder, name)))
            save_file(expected, Path(folder, "expected.safetensors"))
            self.run_against("Pillow.DecodesAlike", "AUTOTRAIN_PILLOW_IMAGES", folder)

    def test_images_resize_alike(self):
        sizes = [((40, 30), (17, 13)), ((13, 17), (40, 31)), ((64, 48), (32, 24)), ((9, 200), (20, 20)), ((5, 5), (5, 5))]
        tensors = {}
        with tempfile.TemporaryDirectory() as folder:
            for i, (before, after) in enumerate(sizes):
                pixels = noise(*before, 3)
                # A fractional part of the image, as a random crop takes.
                box = (0.0, 0.0, before[1], before[0]) if i % 2 == 0 else (0.6, 1.3, before[1] - 2.2, before[0] - 0.7)
                resized = Image.fromarray(pixels).resize(after[::-1], Image.BILINEAR, box=box, reducing_gap=None)
                tensors[f"{i}.before"], tensors[f"{i}.after"] = pixels, np.asarray(resized).copy()
                tensors[f"{i}.box"] = np.array(box, dtype=np.float64)
            save_file(tensors, Path(folder, "resized.safetensors"))
            self.run_against("Pillow.ResizesAlike", "AUTOTRAIN_PILLOW_RESIZED", folder)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
