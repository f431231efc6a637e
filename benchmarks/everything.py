"""All benchmarks, one after the other, with a bar: `make bench`. Options go to each of them.

Exit 1 when a promise is broken, or a ratio is worse than the stored one by more than 15 percent; the others still run.
"""

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAMES = (
    *("discovery", "running", "context", "tools", "host", "langchain"),
    *("token_report", "prompt_cache", "selection", "scale", "safety"),
)
WIDTH = 24


def bar(done: int, name: str, seconds: float) -> str:
    """How far it is."""
    filled = round(WIDTH * done / len(NAMES))
    return f"[{'█' * filled}{'·' * (WIDTH - filled)}] {done} of {len(NAMES)}, {seconds / 60:.1f} min: {name}"


def main() -> int:
    """Run them all."""
    began, failed = time.monotonic(), list[str]()
    for number, name in enumerate(NAMES):
        print(bar(number, name, time.monotonic() - began), file=sys.stderr, flush=True)
        if subprocess.run([sys.executable, str(HERE / f"{name}.py"), *sys.argv[1:]], check=False).returncode:
            failed.append(name)
    print(bar(len(NAMES), "done", time.monotonic() - began), file=sys.stderr, flush=True)
    if failed:
        print(f"not kept, or not to be measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
