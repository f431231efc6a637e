"""How fast the pages of the console are, and how much a browser loads: `make bench`.

Renews its section of docs/benchmarks.md with `--write`.
"""

import re
import subprocess
import sys
import time
from pathlib import Path

import httpx2
from console_live import measure_live
from host_servers import clean_environment, free_port, served
from report import Target
from running_part import Part, Surroundings, plain_table, raw_series, series_table
from sampling import Way, in_turns, timed
from suite import Suite, main

MAX_FIRST_PAGE = 100.0
"""Milliseconds on the server."""
MAX_TRANSFER = 200.0
"""Kilobytes of a first visit."""

_PAGES = """
`openskills ui` with many skills and one client over loopback. Times are until the whole response has arrived. The
first page is the catalog without a search; the others are a search (as the user types), a filter and a skill. The
target is for the median.
"""
_TRANSFER = """
The table lists all responses that a browser with an empty cache loads for the first page: the page itself, styles,
scripts and the icon, compressed with gzip as the host sends them.
"""
_PATHS = {
    "first page": "/",
    "last page": "/?page=1000000",
    "search": "/?q=merge+two+tables",
    "search, partial": "/?q=merge+two+tables",
    "filter": "/?state=ready&problems=no",
    "a skill": "/console/skills/skill-00001",
}


def write_skills(folder: Path, count: int) -> Path:
    """Skills with descriptions of ordinary length."""
    for number in range(count):
        skill = folder / f"skill-{number:05}"
        skill.mkdir(parents=True)
        about = f"Merge, split and describe tables of kind {number % 97}. Use when the user has group {number % 89}."
        text = f"---\nname: skill-{number:05}\ndescription: {about}\n---\n\n# Skill {number}\n\n" + "Do this. " * 100
        (skill / "SKILL.md").write_text(text, "utf-8")
    return folder


async def measure_pages(at: Surroundings) -> Part:
    """The time of each page with many skills, and what a first visit loads."""
    count = max(at.extent.skills)
    skills = write_skills(at.scratch / "skills", count)
    environment, port = clean_environment(at.scratch), free_port()
    url = f"http://127.0.0.1:{port}"
    line = [sys.executable, "-m", "openskills"]
    async with served([*line, "ui", str(skills), "--port", str(port)], at.scratch, environment, f"{url}/readyz"):
        made = subprocess.run(
            [*line, "console", "link", "--url", url], cwd=at.scratch, env=environment, capture_output=True, check=True
        )
        with httpx2.Client(base_url=url, timeout=120, trust_env=False) as client:
            client.get(made.stdout.decode().strip())
            began = time.perf_counter()
            page = client.get("/").text
            opened = time.perf_counter() - began
            found = await in_turns({name: _ask(client, name, path) for name, path in _PATHS.items()}, at.extent.many)
            sizes = measure_transfer(client, page)
    first = found["first page"].median * 1000
    total = sum(sizes.values()) / 1024
    rows = [[name, f"{size / 1024:.1f} KB"] for name, size in sizes.items()]
    first_time = f"Reading all {count:,} skills for the first page took {opened:.2f} s."
    about = f"{_PAGES.strip()}\n\n{first_time}\n\n{_TRANSFER.strip()}"
    return Part(
        f"Pages with {count:,} skills",
        about,
        [
            Target(f"first page with {count:,} skills", first, MAX_FIRST_PAGE, at_least=False, unit="ms"),
            Target("bytes of a first visit", total, MAX_TRANSFER, at_least=False, unit="KB"),
        ],
        f"{series_table(found)}\n\n{plain_table(['file', 'compressed'], rows)}",
        raw={"times": raw_series(found), "bytes": sizes},
    )


def _ask(client: httpx2.Client, name: str, path: str) -> Way:
    headers = {"HX-Request": "true", "HX-Request-Type": "partial"} if "partial" in name else {}

    async def ask() -> None:
        assert client.get(path, headers=headers).status_code == 200

    return timed(ask)


def measure_transfer(client: httpx2.Client, page: str) -> dict[str, int]:
    """The compressed size of the page and of everything that it names."""
    paths = ["/", *dict.fromkeys(re.findall(r'(?:src|href)="(/console/static/[^"]+)"', page))]
    sizes: dict[str, int] = {}
    for path in paths:
        with client.stream("GET", path, headers={"Accept-Encoding": "gzip"}) as answer:
            sizes[path.rpartition("/")[2] or "/"] = len(b"".join(answer.iter_raw()))
    return sizes


PARTS = {"pages": measure_pages, "live": measure_live}
SUITE = Suite("console", "The console", __doc__, "Time of a page of the console", PARTS)

if __name__ == "__main__":
    sys.exit(main(SUITE))
