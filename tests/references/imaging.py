"""Write crates/imaging/tests/fixtures: the results of Pillow, OpenCV, jax and numpy for synthetic images.

The script needs numpy, Pillow, opencv-python-headless and jax. It records their versions in reference.json.
Run it from the root of the repository. The tests read only its output. scans_32.jpg and scans_33.jpg, gray images of so many scans,
were written by hand and stay.
"""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import cv2  # pyright: ignore[reportMissingImports]
import jax  # pyright: ignore[reportMissingImports]
import numpy as np
import PIL  # pyright: ignore[reportMissingImports]
from PIL import Image, ImageEnhance, ImageFilter  # pyright: ignore[reportMissingImports]

OUT = Path("crates/imaging/tests/fixtures")
TEMPLATE = np.array([[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]])


def synthetic(width: int, height: int) -> np.ndarray:
    """Returns the image that the Rust tests compute with the same integer formula."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    ramp = abs(2 * ((x * 5 + y * 3 + c * 40) % 256) - 255)
    texture = ((x * x + 7 * y * (c + 1)) >> 2) & 63
    return (ramp * 3 // 4 + texture).astype(np.uint8)


def save(name: str, pixels: np.ndarray) -> None:
    Image.fromarray(pixels).save(OUT / name, optimize=True)


def umeyama(src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    ms, md = src.mean(0), dst.mean(0)
    a, b = src - ms, dst - md
    u, d, vt = np.linalg.svd(b.T @ a / len(src))
    s = np.diag([1.0, np.sign(np.linalg.det(u) * np.linalg.det(vt))])
    r = u @ s @ vt
    k = (d * np.diag(s)).sum() / a.var(0).sum()
    return np.hstack([k * r, (md - k * r @ ms)[:, None]])


def quality(pixels: np.ndarray) -> dict[str, float]:
    gray = pixels.astype(np.float64) @ [0.299, 0.587, 0.114]
    border = {"borderType": cv2.BORDER_REFLECT_101}
    sx = cv2.Sobel(gray, cv2.CV_64F, 1, 0, ksize=3, **border)
    sy = cv2.Sobel(gray, cv2.CV_64F, 0, 1, ksize=3, **border)
    return {
        "blur_score": cv2.Laplacian(gray, cv2.CV_64F, ksize=1, **border).var(),
        "brightness": gray.mean(),
        "contrast": gray.std(),
        "sharpness": np.sqrt(sx**2 + sy**2).mean(),
    }


def resizes() -> None:
    source = synthetic(97, 61)
    for width, height in ((40, 25), (150, 100)):
        pil = Image.fromarray(source)
        save(f"bilinear_{width}.png", np.array(pil.resize((width, height), Image.BILINEAR)))
        save(f"bicubic_{width}.png", np.array(pil.resize((width, height), Image.BICUBIC)))
        save(f"bilinear_point_{width}.png", cv2.resize(source, (width, height), interpolation=cv2.INTER_LINEAR))
    save("area_40.png", cv2.resize(source, (40, 25), interpolation=cv2.INTER_AREA))


def weights(old: int, new: int) -> np.ndarray:
    """Returns the antialiased bilinear weights [new, old] of ATen's _compute_indices_min_size_weights_aa, in f64."""
    scale = old / new
    support = max(scale, 1.0)
    matrix = np.zeros((new, old))
    for i in range(new):
        center = scale * (i + 0.5)
        first = max(int(center - support + 0.5), 0)
        end = min(int(center + support + 0.5), old)
        apart = (np.arange(first, end) - center + 0.5) / support
        window = np.maximum(1.0 - np.abs(apart), 0.0)
        matrix[i, first:end] = window / window.sum()
    return matrix


def torchvision(pixels: np.ndarray, width: int, height: int) -> np.ndarray:
    """Computes torchvision's antialiased bilinear resize of u8 without torch: in floats, rounded once."""
    rows, columns = weights(pixels.shape[0], height), weights(pixels.shape[1], width)
    levels = np.einsum("hy,yxc,wx->hwc", rows, pixels.astype(np.float64), columns, optimize=True)
    return np.rint(levels).astype(np.uint8)


def without_antialias(pixels: np.ndarray, width: int, height: int) -> np.ndarray:
    """Computes torch's bilinear interpolation without antialiasing and rounding, with align_corners=False."""

    def taps(old: int, new: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        center = np.maximum((np.arange(new) + 0.5) * (old / new) - 0.5, 0.0)
        first = center.astype(int)
        return first, np.minimum(first + 1, old - 1), center - first

    top, bottom, down = taps(pixels.shape[0], height)
    left, right, across = taps(pixels.shape[1], width)
    down, across = down[:, None, None], across[None, :, None]
    pixels = pixels.astype(np.float64)
    narrow = pixels[:, left] * (1 - across) + pixels[:, right] * across
    return narrow[top] * (1 - down) + narrow[bottom] * down


def jax_linear(pixels: np.ndarray, width: int, height: int, precision: type[np.floating] = np.float64) -> np.ndarray:
    """Resizes with jax. In f32, the error of jax itself exceeds the tolerance of the tests."""
    with jax.enable_x64(precision is np.float64):
        levels = jax.image.resize(pixels.astype(precision), (height, width, 3), "linear", antialias=True)
        assert levels.dtype == precision
        return np.asarray(levels)


def apart(ours: np.ndarray, theirs: np.ndarray) -> dict[str, float]:
    """Returns the differences between two results, in levels."""
    levels = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
    return {"max": levels.max(), "mean": levels.mean(), "different": int((levels > 0).sum())}


def profiles() -> dict[str, Any]:
    """Writes the results of the resize profiles. Of the large image, it keeps every 16th line."""
    small = synthetic(97, 61)
    save("torchvision_40.png", torchvision(small, 40, 25))
    save("torchvision_150.png", torchvision(small, 150, 100))
    for width, height in ((40, 25), (150, 100)):
        lines = jax_linear(small, width, height)[:: 1 if width == 40 else 16]
        (OUT / f"jax_{width}.f32").write_bytes(lines.astype("<f4").tobytes())
    large, side = synthetic(1440, 1080), 224
    pil = np.array(Image.fromarray(large).resize((side, side), Image.BILINEAR))
    once = torchvision(large, side, side)
    opencv = cv2.resize(large, (side, side), interpolation=cv2.INTER_LINEAR)
    linear = jax_linear(large, side, side)
    save("pil_224.png", pil[::16])
    save("torchvision_224.png", once[::16])
    save("opencv_224.png", opencv[::16])
    (OUT / "jax_224.f32").write_bytes(linear[::16].astype("<f4").tobytes())
    fixed = cv2.resize(large, (640, 1080), interpolation=cv2.INTER_LINEAR)
    return {
        "opencv_sha256": hashlib.sha256(opencv.tobytes()).hexdigest(),
        "jax_f32_jax_f64": apart(jax_linear(large, side, side, np.float32), linear),
        "jax_pil": apart(linear, pil),
        "jax_torchvision": apart(linear, once),
        "torchvision_opencv": apart(once, opencv),
        "without_antialias": apart(np.rint(without_antialias(large, 640, 1080)), fixed),
    }


def aligned() -> dict[str, Any]:
    points = np.array([[70.0, 60.0], [128.5, 75.25], [92.0, 105.0], [60.5, 130.0], [109.0, 143.0]])
    matrix = umeyama(points, TEMPLATE)
    save("aligned.png", cv2.warpAffine(synthetic(200, 180), matrix, (112, 112), flags=cv2.INTER_LINEAR, borderValue=0))
    edge = points + [-75.0, -60.0]
    save(
        "aligned_edge.png", cv2.warpAffine(synthetic(200, 180), umeyama(edge, TEMPLATE), (112, 112), flags=cv2.INTER_LINEAR, borderValue=0)
    )
    return {"points": points.tolist(), "edge": edge.tolist(), "matrix": matrix.tolist()}


def enhanced() -> None:
    source = Image.fromarray(synthetic(48, 36))
    contrast = ImageEnhance.Contrast(source).enhance(1.15)
    save("contrast.png", np.array(contrast))
    save("sharpness.png", np.array(ImageEnhance.Sharpness(source).enhance(1.1)))
    save("unsharp.png", np.array(source.filter(ImageFilter.UnsharpMask(1, 120, 3))))
    whole = source.resize((48 * 4, 36 * 4), Image.BICUBIC)
    whole = ImageEnhance.Sharpness(ImageEnhance.Contrast(whole).enhance(1.15)).enhance(1.1)
    save("enhanced.png", np.array(whole.filter(ImageFilter.UnsharpMask(1, 120, 3))))
    luma = cv2.cvtColor(synthetic(131, 90), cv2.COLOR_RGB2YCrCb)[:, :, 0].copy()
    save("clahe_luma.png", cv2.createCLAHE(2.0, (8, 8)).apply(luma))


def cmyk() -> None:
    ink = np.dstack([synthetic(40, 32), synthetic(32, 40).transpose(1, 0, 2)[:, :, 1] // 2])
    buffer = io.BytesIO()
    Image.fromarray(ink, "CMYK").save(buffer, "JPEG", quality=92)
    adobe = buffer.getvalue()
    at = adobe.index(b"Adobe") - 4
    ycck = bytearray(adobe)
    ycck[at + 15] = 2  # the transform flag: the decoder reads the same samples as YCCK
    plain = adobe[:at] + adobe[at + 16 :]
    for name, data in (("cmyk", adobe), ("ycck", bytes(ycck)), ("cmyk_plain", plain)):
        (OUT / f"{name}.jpg").write_bytes(data)
        save(f"{name}.png", np.array(Image.open(io.BytesIO(data)).convert("RGB")))


def jpegs() -> None:
    """JPEGs that Rust's encoder cannot write: with several scans, and with restart markers."""
    image = Image.fromarray(synthetic(40, 30)).resize((200, 150), Image.Resampling.BICUBIC)
    image.save(OUT / "progressive.jpg", "JPEG", quality=90, progressive=True)
    image.save(OUT / "restarts.jpg", "JPEG", quality=90, restart_marker_rows=1)


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    resizes()
    enhanced()
    cmyk()
    jpegs()
    dark = (synthetic(112, 112) // 6).astype(np.uint8)
    reference = {
        "versions": {"opencv": cv2.__version__, "pillow": PIL.__version__, "numpy": np.__version__, "jax": jax.__version__},
        "profiles": profiles(),
        "align": aligned(),
        "quality": {"112x112": quality(synthetic(112, 112)), "97x61": quality(synthetic(97, 61)), "dark": quality(dark)},
    }
    (OUT / "reference.json").write_text(json.dumps(reference, indent=1) + "\n")


main()
