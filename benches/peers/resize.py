"""Makes thumbnails and images of a phone from photographs, as JPEGs with halved chroma (4:2:0), as cameras write them.

    python resize.py --output FOLDER --thumbnail-side 250 --phone-pixels 12000000 *.jpg

The files go to FOLDER/thumbnails and FOLDER/phones, and keep their names.
"""

import argparse
import pathlib

import cv2  # pyright: ignore[reportMissingImports]

JPEG = [cv2.IMWRITE_JPEG_QUALITY, 92, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("--thumbnail-side", required=True, type=int, help="the longer side of a thumbnail, in pixels")
    parser.add_argument("--phone-pixels", required=True, type=int, help="the pixels of an image of a phone")
    parser.add_argument("images", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    for path in arguments.images:
        image = cv2.imread(str(path))
        height, width = image.shape[:2]
        scales = {"thumbnails": arguments.thumbnail_side / max(width, height), "phones": (arguments.phone_pixels / (width * height)) ** 0.5}
        for scenario, scale in scales.items():
            size = (round(width * scale), round(height * scale))
            resized = cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)
            (arguments.output / scenario).mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(arguments.output / scenario / path.name), resized, JPEG)


if __name__ == "__main__":
    main()
