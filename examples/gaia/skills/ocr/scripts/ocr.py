"""Print the text of images, with tesseract: `ocr.py IMAGE... [--language eng] [--layout 3]`."""

import argparse
import shutil
import subprocess
import sys

MISSING = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", nargs="+")
    parser.add_argument("--language", default="eng")
    parser.add_argument("--layout", default="3", help="tesseract's page segmentation mode")
    given = parser.parse_args()
    program = shutil.which("tesseract")
    if program is None:
        print("this skill needs the program tesseract; install the package tesseract-ocr", file=sys.stderr)
        return MISSING
    for image in given.images:
        command = [program, image, "-", "-l", given.language, "--psm", given.layout]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace", check=False)
        if "Failed loading language" in done.stderr:
            missing = f"install the package tesseract-ocr-{given.language}"
            print(f"tesseract cannot read the language {given.language!r}; {missing}", file=sys.stderr)
            return MISSING
        if done.returncode != 0:
            print(f"{image}: {done.stderr.strip() or 'tesseract failed'}", file=sys.stderr)
            return 1
        print(done.stdout.strip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
