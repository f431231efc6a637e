"""Draw docs/images/demo.svg from the real output of the demo: `.venv/bin/python scripts/demo_picture.py`.

The picture has the sections of the demo that `SECTIONS` names, as a terminal shows them.
"""

import io
import os
import pty
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "demo.svg"
SECTIONS = ("1", "3", "4", "7", "8")
WIDTH = 132
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def main() -> int:
    """Run the demo on a terminal and write the picture."""
    output = run_demo()
    console = Console(record=True, width=WIDTH, file=io.StringIO(), color_system="truecolor", force_terminal=True)
    console.print(Text.from_ansi("$ make demo\n" + "\n".join(select(output.splitlines())).rstrip()))
    svg = console.export_svg(title="make demo", unique_id="demo")
    # The fonts of rich come from a server; a monospace font of the reader does as well.
    svg = _FONT.sub("", svg).replace("Fira Code", "DejaVu Sans Mono")
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(svg, "utf-8")
    print(PICTURE.relative_to(ROOT))
    return 0


def run_demo() -> str:
    """The output of the demo, in English, with the colours that it has on a terminal."""
    os.environ.update(COLUMNS=str(WIDTH), TERM="xterm-256color")
    parts: list[bytes] = []

    def read(terminal: int) -> bytes:
        parts.append(os.read(terminal, 65536))
        return parts[-1]

    status = pty.spawn([sys.executable, str(ROOT / "scripts" / "demo.py"), "--en"], read)
    if status:
        raise SystemExit(f"the demo failed:\n{b''.join(parts).decode()}")
    return b"".join(parts).decode().replace("\r\n", "\n")


def select(lines: list[str]) -> list[str]:
    """The title and the chosen sections."""
    chosen: list[str] = []
    keep = True
    for line in lines:
        plain = _ANSI.sub("", line)
        if heading := re.match(r"(\d+)\. ", plain):
            keep = heading[1] in SECTIONS
        elif plain.startswith("Next, "):
            keep = False
        if keep:
            chosen.append(line)
    return chosen


if __name__ == "__main__":
    sys.exit(main())
