"""The main job in a minute: a request in words, skills, a sandbox, a file. No key, no network: `make demo`.

In English or Chinese, by LANG or with `--en` and `--zh`. `--tour` shows the commands instead, one after the other.
Everything happens in a temporary directory; nothing of the person who runs it is read or written.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from demo_job import Job
from demo_paper import Paper
from demo_tour import ATTACK, Typist, tour
from demo_words import CHINESE, ENGLISH, Words

from openskills.errors import SkillError
from openskills.executors.open import open_executor
from openskills.settings import Settings
from openskills.sync import run

ROOT = Path(__file__).resolve().parent.parent
BOMB = "---\nname: &a [*a]\n---\n"


def main() -> int:
    """Run the demo; 0 when everything did what it should."""
    parser = argparse.ArgumentParser(prog="make demo", description="The main job in a minute, without a key.")
    parser.add_argument("--zh", dest="words", action="store_const", const=CHINESE, help="in Chinese")
    parser.add_argument("--en", dest="words", action="store_const", const=ENGLISH, help="in English")
    parser.add_argument("--tour", action="store_true", help="show the commands instead")
    asked = parser.parse_args()
    words: Words = asked.words or spoken(os.environ)
    with tempfile.TemporaryDirectory(prefix="openskills-demo-") as scratch:
        directory = Path(scratch)
        shutil.copytree(ROOT / "skills", directory / "skills", ignore=shutil.ignore_patterns("__pycache__"))
        typist = Typist(directory, environment(directory))
        failures = tour(typist) if asked.tour else job(directory, typist, words)
    for failure in failures:
        print(f"{words.failed} {failure}", file=sys.stderr)
    return 1 if failures else 0


def job(directory: Path, typist: Typist, words: Words) -> list[str]:
    """The main job, and what a hostile script gets."""
    paper = Paper()
    paper.title(words.title)
    (directory / "skills" / "bomb").mkdir()
    (directory / "skills" / "bomb" / "SKILL.md").write_text(BOMB, "utf-8")
    settings = Settings.from_env(typist.environment)
    try:
        run(checked(settings))
    except SkillError as error:
        paper.heading(words.no_sandbox)
        typist.type("doctor", expect=None)
        return [error.message]
    done = Job(directory, settings, words, paper)
    run(done.run())
    paper.heading(words.sandbox)
    typist.type("run", "csv-report", "--skills", "skills", "--", ATTACK, expect=1)
    failures = [*done.failures, *typist.failures]
    if not failures:
        paper.end(words.next_title, words.next)
    return failures


async def checked(settings: Settings) -> None:
    """Raises `ExecutorUnavailable` with what to do when commands cannot be isolated here."""
    chosen = open_executor("auto", settings)
    try:
        await chosen.check()
    finally:
        await chosen.close()


def environment(directory: Path) -> dict[str, str]:
    """That of the person without what is about OpenSkill, with a home in this directory."""
    home = directory / "home"
    home.mkdir()
    theirs = ("OPENSKILL", "SKILLS_", "XDG", "OPENAI", "ANTHROPIC")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
    ours = {f"OPENSKILL_{name}_DIR": str(home / name.lower()) for name in ("CACHE", "CONFIG", "STATE")}
    return {**kept, **ours, "HOME": str(home)}


def spoken(environ: Mapping[str, str]) -> Words:
    """The language of a terminal."""
    language = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := environ.get(name))), "")
    return CHINESE if language.lower().startswith("zh") else ENGLISH


if __name__ == "__main__":
    sys.exit(main())
