"""Run the pages of the documentation and put the real output where a page shows another one.

    .venv/bin/python scripts/docs_output.py [PAGE...]

Look at the difference afterwards: output that changed without a reason is a bug. Output with a line `...` is only
reported, because nobody but its author knows what it leaves out; so is a command or a block that fails.
"""

import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.docs.page import Block, blocks, pages  # noqa: E402 - needs the path above
from tests.docs.reader import Reader, same  # noqa: E402


class PageUpdate:
    """One page, its new text, and what has to be done by hand."""

    def __init__(self, page: Path) -> None:
        self.page = page
        self.text = page.read_text("utf-8")
        self.manual: list[str] = []

    def run(self) -> None:
        """Follow the page from its beginning to its end."""
        with tempfile.TemporaryDirectory() as scratch:
            reader = Reader(Path(scratch) / "you")
            before = Path.cwd()
            os.chdir(reader.project)
            os.environ["HOME"] = str(reader.home)
            try:
                self._follow(reader)
            except Exception as error:  # noqa: BLE001 - whatever a page raises is for its author
                self.manual.append(f"stopped: {type(error).__name__}: {error}")
            finally:
                os.chdir(before)
                reader.stop()
        self.page.write_text(self.text, "utf-8")

    def _follow(self, reader: Reader) -> None:
        printed: str | None = None
        for block in blocks(self.text):
            reader.prepare(block)
            if printed is not None and block.language == "text" and block.follows:
                self._compare(block, block.text, printed)
            printed = None
            if block.told("not run") is not None:
                continue
            if block.language == "console":
                for step, output, _ in reader.run_console(block):
                    if step.shown is not None:
                        self._compare(block, "\n".join(step.shown), output)
            elif block.language == "python" and block.told("file:") is None:
                printed = reader.run_python(block.text, f"{self.page.name}:{block.line}")

    def _compare(self, block: Block, shown: str, real: str) -> None:
        real = real.rstrip("\n")
        if same(shown.splitlines(), real.splitlines()):
            return
        if "..." in shown.splitlines() or self.text.count(shown) != 1:
            self.manual.append(f"line {block.line}: shows\n{shown}\n-- but really prints\n{real}")
        else:
            self.text = self.text.replace(shown, real)


def main(arguments: list[str]) -> int:
    """Update the pages that are named, or all of them."""
    wanted = [Path(name).resolve() for name in arguments] or pages()
    left = 0
    for page in wanted:
        update = PageUpdate(page)
        update.run()
        for fault in update.manual:
            left += 1
            print(f"{page.relative_to(ROOT)}: {fault}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
