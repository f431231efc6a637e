"""A real host with the console, and one real browser for all tests."""

import json
import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, Request, sync_playwright

from openskills.cli.ui import create_link
from openskills.host.parts import HostOptions
from tests.conftest import find_program
from tests.host.hosting import Served, served
from tests.skill_writer import skill_writer

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    """Debian's Chromium, one for each module: while it runs, no async test can, because it has an event loop here."""
    program = find_program(
        "chromium-headless-shell", search_path=os.environ.get("PATH", os.defpath), ci=os.environ.get("CI") == "true"
    )
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, which finds accessibility problems."""
    script = ROOT / "scripts" / "npm_oracles.sh"
    directory = subprocess.run([script, "--directory"], capture_output=True, text=True, check=True).stdout.strip()
    path = Path(directory, "node_modules", "axe-core", "axe.min.js")
    if not path.exists():
        reason = "needs axe-core; install it with scripts/npm_oracles.sh"
        if os.environ.get("CI") == "true" and os.environ.get("NPM_ORACLES") != "none":
            pytest.fail(f"{reason} (CI=true, so this is a failure and not a skip)")
        pytest.skip(reason)
    return path.read_text("utf-8")


@dataclass
class ConsoleHost:
    """A host with the console. `link` logs in; `faults` are what browsers complained about."""

    served: Served
    skills: Path
    browser: Browser
    contexts: list[BrowserContext] = field(default_factory=list[BrowserContext])
    faults: list[str] = field(default_factory=list[str])

    @property
    def url(self) -> str:
        return self.served.url

    def create_link(self) -> str:
        """An address that logs in once."""
        return f"{self.url}/?token={create_link(self.served.parts.settings)}"

    def client(self) -> httpx2.Client:
        """An HTTP client that is logged in, without a browser."""
        with httpx2.Client(verify=False) as first:
            cookies = first.get(self.create_link()).cookies
        headers = {"Origin": self.url}
        return httpx2.Client(
            verify=False, base_url=self.url, timeout=30, headers=headers, cookies=cookies, follow_redirects=True
        )

    def page(self, path: str = "/", *, locale: str = "en-US", link: str | None = None, **options: Any) -> Page:
        """A page of a new browser that is logged in. Errors in it and requests to elsewhere fail the test."""
        context = self.browser.new_context(locale=locale, **options)
        self.contexts.append(context)
        page = context.new_page()
        page.on("console", self._on_console)
        page.on("pageerror", self._on_error)
        page.on("request", self._on_request)
        page.goto(link or self.create_link())
        if path != "/":
            page.goto(self.url + path)
        return page

    def _on_console(self, message: ConsoleMessage) -> None:
        # Chromium reports every answer with an error status, also those that a test asks for.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.faults.append(f"{message.type}: {message.text}")

    def _on_error(self, error: Error) -> None:
        self.faults.append(f"error: {error}")

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((self.url, "data:", "blob:", "about:")):
            self.faults.append(f"request to elsewhere: {request.url}")


def check_accessibility(page: Page, axe: str) -> None:
    """Fail if axe finds anything, also of its best practices."""
    # As a string in the page's own world: the policy of the page forbids scripts from elsewhere, not the debugger.
    page.evaluate(axe)
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    shown = [
        f"{one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes'][:3]]}"
        for one in found["violations"]
    ]
    assert not shown, json.dumps(shown, indent=1)


@contextmanager
def open_console(directory: Path, browser: Browser, **changes: Any) -> Generator[ConsoleHost]:
    """A host with the skills in `directory/skills`, and its console."""
    skills = directory / "skills"
    skills.mkdir(exist_ok=True)
    options = replace(changes.pop("options", HostOptions(watch=False)), skills=(skills,))
    with served(directory, options=options, **changes) as host:
        found = ConsoleHost(host, skills, browser)
        yield found
        for context in found.contexts:
            context.close()
        assert not found.faults


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Generator[ConsoleHost]:
    """A host with some ordinary skills, shared by the tests of a module that change nothing."""
    directory = tmp_path_factory.mktemp("console")
    write_samples(directory / "skills")
    with open_console(directory, browser) as found:
        yield found


def write_samples(skills: Path) -> None:
    """A few skills: in two languages, hidden, and one that cannot be used."""
    write = skill_writer(skills, ".")
    write("pdf-tools", "Merge, split and fill in PDF files. Use when the user has a PDF.")
    write("invoices", "Post invoices to the accounting system and check their totals.")
    write("log-triage", "分析日志文件，按级别统计，合并相同的错误。")
    write("for-people", "Only people may use this.", front="disable-model-invocation: true\n")
    broken = skills / "no-front-matter"
    broken.mkdir(parents=True)
    (broken / "SKILL.md").write_text("# Notes\n\nWithout front matter.\n", "utf-8")
