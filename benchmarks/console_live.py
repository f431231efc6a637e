"""The page of a run while it prints many lines: whether all of them arrive, and whether the page stays usable."""

import subprocess
import sys
import time
from pathlib import Path
from shutil import which

from host_servers import clean_environment, free_port, served
from report import Target
from running_part import NotMeasured, Part, Surroundings, plain_table

LINES = 10_000
MAX_TASK = 250.0
"""Milliseconds for which the page may be busy at a time: longer, and it feels frozen."""
_BROWSER = "chromium-headless-shell"
_SCRIPT = f"""\
import sys
for number in range(1, {LINES + 1}):
    print(f"\\x1b[3{{number % 7 + 1}}mline {{number:05}}\\x1b[0m " + "x" * 80, flush=number % 10 == 0)
"""
_ABOUT = f"""
A command in the sandbox prints {LINES:,} coloured lines in batches of ten, while its page is open in `{_BROWSER}`.
Lines count if they are correct and in the right position. *Longest task* is the longest time for which the page was
blocked (Long Tasks API; 0 if no task took longer than 50 ms).
"""
# Set before the scripts of the page run.
_OBSERVE = """
window.longTasks = [0];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.longTasks.push(entry.duration);
}).observe({ type: "longtask", buffered: true });
"""
_COUNT = """() => {
  let right = 0;
  document.querySelectorAll("#log .line").forEach((line, place) => {
    if (line.textContent.startsWith(`line ${String(place + 1).padStart(5, "0")} `)) right += 1;
  });
  return right;
}"""


def write_skill(folder: Path) -> Path:
    """A skill with the script that prints."""
    skill = folder / "printer"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: printer\ndescription: Prints lines.\n---\nRun it.\n", "utf-8")
    (skill / "scripts" / "lines.py").write_text(_SCRIPT, "utf-8")
    return folder


async def measure_live(at: Surroundings) -> Part:
    """All lines of a long output in a browser."""
    program = which(_BROWSER)
    if program is None:
        raise NotMeasured(f"needs {_BROWSER}")
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        raise NotMeasured("needs playwright") from None
    environment, port = clean_environment(at.scratch), free_port()
    url = f"http://127.0.0.1:{port}"
    line = [sys.executable, "-m", "openskills"]
    skills = write_skill(at.scratch / "skills")
    async with served([*line, "ui", str(skills), "--port", str(port)], at.scratch, environment, f"{url}/readyz"):
        made = subprocess.run(
            [*line, "console", "link", "--url", url], cwd=at.scratch, env=environment, capture_output=True, check=True
        )
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            page = await browser.new_page()
            await page.add_init_script(_OBSERVE)
            await page.goto(made.stdout.decode().strip())
            await page.goto(f"{url}/console/try/skill/printer")
            await page.locator("#command").fill("python scripts/lines.py")
            began = time.perf_counter()
            await page.get_by_role("button", name="Run", exact=True).click()
            await page.locator("#log[data-ended]").wait_for(timeout=120_000)
            took = time.perf_counter() - began
            right, longest = await page.evaluate(_COUNT), await page.evaluate("() => Math.max(...window.longTasks)")
            await browser.close()
    rows = [["lines on the page", f"{right:,}"], ["longest task", f"{longest:.0f} ms"], ["whole run", f"{took:.2f} s"]]
    return Part(
        f"A live run with {LINES:,} lines",
        _ABOUT,
        [
            Target(f"lines that arrive, of {LINES:,}", float(right), float(LINES), at_least=True, unit="lines"),
            Target("longest task of the page", float(longest), MAX_TASK, at_least=False, unit="ms"),
        ],
        plain_table(["", ""], rows),
        raw={"lines": right, "longest_task_ms": longest, "seconds": took},
    )
