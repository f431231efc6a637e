"""Makes the pictures of docs/guides/console.md: starts a host with sample skills and opens each screen in Chromium.

    .venv/bin/python scripts/screenshots.py                # renews docs/images/console-*.png
    .venv/bin/python scripts/screenshots.py --all DIR      # every screen, in all themes, sizes and languages

Needs the program chromium-headless-shell and, for Chinese, a font that has it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, FilePayload, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
CHROMIUM = "/usr/bin/chromium-headless-shell"
SIZE = {"width": 1280, "height": 800}
NARROW = {"width": 390, "height": 844}

DOCUMENTED = {
    "console-catalog": "/?q=merge+two+pdf+files",
    "console-skill": "/console/skills/csv-report",
    "console-conversation": "/console/conversations/cli~sales",
    "console-host": "/console/host",
    "console-try": "/console/try/skill/csv-report?run={run}",
    "console-run": "/console/runs/{run}",
}
"""The pictures of the guide: their names and addresses. `{run}` is the id of a command, `{failed}` that of another."""
SCREENS = {
    **DOCUMENTED,
    "catalog-all": "/",
    "catalog-empty": "/?q=zzzzzz",
    "catalog-left-out": "/?state=left_out",
    "skill-files": "/console/skills/csv-report?tab=files&file=scripts/report.py",
    "skill-problems": "/console/skills/needs-much?tab=problems",
    "skill-requirements": "/console/skills/needs-much?tab=requirements",
    "skill-runs": "/console/skills/csv-report?tab=runs",
    "hosted": "/console/hosted/csv-report.report",
    "conversations": "/console/conversations",
    "conversations-empty": "/console/conversations?q=zzzzzz",
    "conversation-request": "/console/conversations/cli~sales/requests/2",
    "conversation-error": "/console/conversations/nothing-here",
    "host-keys": "/console/host?tab=keys",
    "host-sessions": "/console/host?tab=sessions",
    "host-sources": "/console/host?tab=sources",
    "host-storage": "/console/host?tab=storage",
    "try": "/console/try",
    "try-hosted": "/console/try/hosted/csv-report.report",
    "runs": "/console/runs",
    "runs-empty": "/console/runs?text=zzzzzz",
    "run-failed": "/console/runs/{failed}",
    "runs-compared": "/console/runs/compare?run={run}&run={failed}",
    "run-file": "/console/workspaces/default/files/out/report.md?run={run}",
    "error": "/console/skills/nothing-here",
    "login": "/console/login",
}
_SAMPLES = {
    "pdf": "Fill in, split, merge and read PDF files. Use when the user has a PDF, or wants one.",
    "invoice-sync": "Post invoices to the accounting system and check their totals.",
    "release-notes": "Write release notes from the commits since the last tag, grouped by what changed.",
    "a-very-long-name-that-somebody-gave-a-skill-which-goes-on-and-on": "Shows that long names are wrapped and do not "
    "push other columns out of the page, whatever their authors had in mind when they wrote them down.",
}


def write_skills(folder: Path) -> None:
    """Some skills of this repository, and others in every state."""
    for name in ("csv-report", "markdown-links", "math", "pdf-text", "text-tools"):
        subprocess.run(["cp", "-r", str(ROOT / "skills" / name), str(folder / name)], check=True)
    for name, description in _SAMPLES.items():
        _write(folder / name, f"name: {name}\ndescription: {description}\n")
    _write(folder / "for-people", "name: for-people\ndescription: For people.\ndisable-model-invocation: true\n")
    requires = (
        "metadata:\n  requires:\n    env: [ACCOUNTING_TOKEN]\n    bins: [pandoc, no-such-program]\n  always: true\n"
    )
    _write(folder / "needs-much", f"name: needs-much\ndescription: does things\n{requires}foo: bar\n")
    (folder / "needs-much" / "requirements.txt").write_text("pandas>=2\n", "utf-8")
    (folder / "thread-notes").mkdir()
    (folder / "thread-notes" / "SKILL.md").write_text("# Notes\n\nWithout front matter.\n", "utf-8")


def _write(folder: Path, front: str) -> None:
    folder.mkdir()
    (folder / "SKILL.md").write_text(f"---\n{front}---\n\n# Steps\n\n1. Read the input.\n2. Do it.\n", "utf-8")


@contextmanager
def serve(directory: Path) -> Generator[str]:
    """A host with the samples; the address that logs in."""
    (directory / "skills").mkdir()
    write_skills(directory / "skills")
    environment = {"HOME": str(directory), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    line = [sys.executable, "-m", "openskills"]
    subprocess.run(
        [*line, "keys", "new", "reporting", "--role", "read"], env=environment, check=True, capture_output=True
    )
    subprocess.run(
        [*line, "keys", "new", "ci", "--scope", "csv-report.*", "--limit", "rate=5", "--expires", "30d"],
        env=environment,
        check=True,
        capture_output=True,
    )
    (directory / "sales.csv").write_text(
        "month,region,amount\n2026-01,north,12\n2026-02,south,15\n2026-03,north,\n", "utf-8"
    )
    chat = ["chat", "--skills", "skills", "--model", "rule", "--session", "sales", "Use $csv-report on @sales.csv"]
    subprocess.run([*line, *chat], cwd=directory, env=environment, check=True, capture_output=True)
    output = directory / "link.txt"
    with output.open("wb") as out:
        process = subprocess.Popen([*line, "ui", "skills", "--port", "0"], cwd=directory, env=environment, stdout=out)
    try:
        while not output.read_text().endswith("\n"):
            time.sleep(0.1)
        yield output.read_text().strip()
    finally:
        process.terminate()
        process.wait()


SALES = "month,region,amount\n" + "".join(f"2026-{n % 12 + 1:02},{'NSEW'[n % 4]},{n * 37 % 500}\n" for n in range(400))
REPORT = """\
python scripts/report.py inputs/sales.csv --output out/report.md
python scripts/chart.py inputs/sales.csv --x month --y amount --output out/chart.svg
printf '\\033[32m%s\\033[0m\\n' "$(head -1 out/report.md)"; tail -n +2 out/report.md; ls out >&2"""


def start_runs(page: Page, url: str) -> dict[str, str]:
    """Run two commands as a user does; their ids by the names in the addresses."""
    found: dict[str, str] = {}
    for name, command in {"failed": "echo starting; ls missing.csv", "run": REPORT}.items():
        page.goto(f"{url}/console/try/skill/csv-report")
        sales = FilePayload(name="sales.csv", mimeType="text/csv", buffer=SALES.encode())
        page.locator("#files").set_input_files([sales])
        page.locator("#command").fill(command)
        page.get_by_role("button", name="Run", exact=True).click()
        page.locator("#waterfall:not([hidden])").wait_for()
        found[name] = page.url.rpartition("/")[2]
    return found


def take(browser: Browser, link: str, pictures: Mapping[Path, tuple[str, str, dict[str, int], str]]) -> None:
    """Open each address with a color scheme, size and language, and store the picture."""
    url = link.partition("/?")[0]
    first = browser.new_context()
    page = first.new_page()
    page.goto(link)
    state = first.storage_state()
    ids = start_runs(page, url)
    for path, (address, scheme, size, locale) in pictures.items():
        context = browser.new_context(
            color_scheme="dark" if scheme == "dark" else "light",
            viewport={"width": size["width"], "height": size["height"]},
            locale=locale,
            storage_state=None if address.endswith("/login") else state,
        )
        page = context.new_page()
        for name, run_id in ids.items():
            address = address.replace(f"{{{name}}}", run_id)  # noqa: PLW2901
        page.goto(url + address)
        # A conversation and a run listen to events, so that the network is never idle.
        listens = "/conversations/" in address or "/console/runs" in address
        page.wait_for_load_state("load" if listens else "networkidle")
        page.wait_for_timeout(300)
        page.screenshot(path=path, full_page=size is NARROW)
        context.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", metavar="DIR", type=Path, help="every screen, in a directory")
    options = parser.parse_args()
    pictures: dict[Path, tuple[str, str, dict[str, int], str]] = {}
    if options.all is None:
        IMAGES.mkdir(exist_ok=True)
        pictures = {IMAGES / f"{name}.png": (path, "light", SIZE, "en-US") for name, path in DOCUMENTED.items()}
    else:
        options.all.mkdir(parents=True, exist_ok=True)
        for name, path in SCREENS.items():
            pictures[options.all / f"{name}-light.png"] = (path, "light", SIZE, "en-US")
            pictures[options.all / f"{name}-dark.png"] = (path, "dark", SIZE, "en-US")
            pictures[options.all / f"{name}-narrow.png"] = (path, "light", NARROW, "en-US")
            pictures[options.all / f"{name}-zh.png"] = (path, "light", SIZE, "zh-CN")
    with tempfile.TemporaryDirectory(prefix="openskills-screenshots-") as directory, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        with serve(Path(directory)) as link:
            take(browser, link, pictures)
        browser.close()
    print(json.dumps({"pictures": [str(path) for path in pictures]}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
