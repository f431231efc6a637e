"""The screens of one skill, and its files, requirements, snippets and previews."""

import base64
import hashlib
import json
import re
from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from openskills.host.console.skill import build_example, preview_headers
from tests.host.console.conftest import ConsoleHost, check_accessibility, open_console
from tests.long_form import cases
from tests.skill_writer import skill_writer

BODY = """\
# Report

Read [the guide](references/guide.md) and [the site](https://example.org/x), not [this](javascript:alert(1)).

![chart](assets/chart.png) <b onclick="alert(1)">raw</b>

```bash
pandoc input.md
```
"""


def write_report(skills: Path) -> Path:
    requires = "requires:\n    env: [REPORT_TOKEN]\n    bins: [surely-missing-program]\n  always: true\n"
    front = f"license: MIT\nmetadata:\n  {requires}"
    folder = skill_writer(skills, ".")("report", "Writes reports about tables.", front=front, body=BODY)
    for name, data in {
        "references/guide.md": b"# Guide\n\nFirst the table.",
        "scripts/make.py": b"import pandas\nprint('x')\n",
        "assets/chart.png": b"\x89PNG\r\n\x1a\n",
        "assets/page.html": b"<style>h1 { color: red }</style><h1>Hello</h1><script>parent.hacked = 1</script>",
        "assets/data.bin": b"\x00\x01\x02",
    }.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Generator[ConsoleHost]:
    directory = tmp_path_factory.mktemp("skill")
    write_report(directory / "skills")
    with open_console(directory, browser) as found:
        yield found


TABS = ("instructions", "files", "problems", "requirements", "runs")


# Both languages, but each tab only in one; in the long form in both.
@pytest.mark.parametrize(("locale", "first"), cases([("en-US", 0), ("zh-CN", 1)], [("en-US", 1), ("zh-CN", 0)]))
def test_every_tab_is_accessible_on_a_phone_and_on_a_desk(
    console: ConsoleHost, axe: str, locale: str, first: int
) -> None:
    page = console.page("/console/skills/report", locale=locale)
    for tab in TABS[first::2]:
        page.goto(f"{console.url}/console/skills/report?tab={tab}")
        assert page.get_by_role("heading", name="report", exact=True).is_visible()
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (tab, width)
        check_accessibility(page, axe)


def test_the_text_is_rendered_without_anything_active(console: ConsoleHost) -> None:
    page = console.page("/console/skills/report")
    text = page.locator(".markdown")
    expect(text.get_by_role("heading", name="Report")).to_be_visible()
    assert "alert(1)" not in "".join(link.get_attribute("href") or "" for link in text.locator("a").all())
    assert text.locator("img, b, script").count() == 0
    assert text.get_by_role("link", name="the site").get_attribute("rel") == "noopener noreferrer nofollow"
    text.get_by_role("link", name="the guide").click()
    expect(page.get_by_text("First the table.")).to_be_visible()


def test_files_are_shown_by_what_they_are(console: ConsoleHost) -> None:
    page = console.page("/console/skills/report?tab=files")
    page.get_by_role("link", name="scripts/make.py").click()
    assert "import pandas" in page.locator("pre.lines").inner_text()
    page.get_by_role("link", name="assets/data.bin").click()
    expect(page.get_by_text("This file is not text.")).to_be_visible()
    page.get_by_role("link", name="assets/page.html").click()
    assert "parent.hacked" in page.locator("pre.lines").inner_text()
    page.get_by_role("link", name="Preview").click()
    assert page.locator("iframe").get_attribute("sandbox") == ""
    page.wait_for_load_state("networkidle")
    assert page.evaluate("window.hacked") is None
    console.faults[:] = [fault for fault in console.faults if "Blocked script execution" not in fault]
    with console.client() as client:
        document = client.get("/console/files/report?file=assets/page.html&preview=1")
        assert document.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        assert document.headers["x-frame-options"] == "SAMEORIGIN"
        plain = client.get("/console/files/report?file=assets/page.html")
        assert plain.headers["content-disposition"].startswith("attachment")
        assert client.get("/console/files/report?file=../../secret").status_code in (400, 403)


def test_requirements_say_what_is_missing(console: ConsoleHost) -> None:
    page = console.page("/console/skills/report?tab=requirements")
    rows = {row.locator("td").first.inner_text(): row.inner_text() for row in page.locator("tbody tr").all()}
    assert "missing" in rows["REPORT_TOKEN"]
    assert "missing" in rows["surely-missing-program"]
    assert "not checked" in rows["pandas"]
    assert "scripts/make.py" in rows["pandas"]


def test_the_api_has_the_same_facts_and_files(console: ConsoleHost) -> None:
    client = console.served.client
    facts = client.get("/catalog/report").json()["data"]
    assert facts["digest"].startswith("sha256:")
    assert facts["missing"]["env"] == ["REPORT_TOKEN"]
    assert "scripts/make.py" in [one["path"] for one in facts["resources"]]
    file = client.get("/catalog/report", params={"file": "scripts/make.py"})
    assert file.content.startswith(b"import pandas")
    assert file.headers["content-disposition"].startswith("attachment")
    # Callers that are not administrators learn nothing about the machine.
    assert str(console.skills) not in json.dumps(facts)
    assert str(console.skills) not in client.get("/catalog").text
    with console.client() as admin:
        assert admin.get("/catalog/report").json()["data"]["location"].startswith(str(console.skills))
    missing = client.get("/catalog/reprot")
    assert missing.status_code == 404
    assert "report" in missing.json()["error"]["message"]


def test_snippets_name_this_host_and_can_be_copied(console: ConsoleHost) -> None:
    page = console.page("/console/hosted/echo", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_text("curl", exact=True).click()
    shown = page.locator("#snippet-2").inner_text()
    assert f"{console.url}/skills/echo:invoke" in shown
    assert '{"input": {"text": "text"}}' in shown
    page.locator("details", has_text="curl").get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    config = json.loads(page.locator("#snippet-4").text_content() or "")
    assert config["mcpServers"]["openskills"]["url"] == f"{console.url}/mcp"


def test_past_runs_are_listed(console: ConsoleHost) -> None:
    assert console.served.invoke("echo", {"text": "x"}).status_code == 200
    assert console.served.invoke("echo", {"wrong": 1}).status_code == 400
    page = console.page("/console/hosted/echo")
    for _ in range(50):
        if page.locator("tbody tr").count() == 2:
            break
        page.wait_for_timeout(50)
        page.reload()
    assert "anonymous" in page.locator("tbody tr").first.inner_text()
    assert page.locator("tbody .tag.bad").inner_text() == "failed"


def test_the_example_of_a_schema_has_its_required_fields() -> None:
    schema = {
        "properties": {
            "text": {"type": "string"},
            "mode": {"enum": ["fast", "slow"]},
            "more": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
            "unused": {"type": "number"},
        },
        "required": ["text", "mode", "more", "unknown"],
    }
    assert build_example(schema) == {"text": "text", "mode": "fast", "more": {"n": 1}}
    assert build_example({}) == {}
    assert build_example({"default": [1]}) == [1]


def test_a_preview_may_use_its_own_styles_only() -> None:
    policy = dict(preview_headers(b"<style>a{}</style><p style='x'>"))["content-security-policy"]
    assert policy.count("'sha256-") == 1
    assert "unsafe" not in policy
    assert "style-src" not in dict(preview_headers(b"<p>"))["content-security-policy"]


class CountingBytes(bytes):
    """Counts the bytes that its searches pass over, which is what they cost."""

    passed = 0

    def lower(self) -> "CountingBytes":
        return self

    def find(self, part: bytes, start: int = 0) -> int:  # type: ignore[override]
        at = super().find(part, start)
        self.passed += (len(self) if at < 0 else at) - start
        return at


@pytest.mark.parametrize(
    "text", [b"<style>", b"<style", b"<style></style>", b"<style>a</STYLE", b"</style>", b"><style"]
)
def test_a_hostile_preview_is_searched_in_linear_time(text: bytes) -> None:
    data = CountingBytes(text * 20_000)
    preview_headers(data)
    assert data.passed <= 3 * len(data)


def test_all_styles_of_a_preview_are_found() -> None:
    data = b"<STYLE type=a>a>b{}</Style><style>c</style x><style></style><style>open"
    hashes = [base64.b64encode(hashlib.sha256(one).digest()).decode() for one in (b"a>b{}", b"c", b"")]
    policy = dict(preview_headers(data))["content-security-policy"]
    assert re.findall("sha256-([^']+)", policy) == hashes


def test_previews_are_made_up_to_a_size(console: ConsoleHost) -> None:
    folder = console.skills / "report" / "assets"
    (folder / "large.html").write_bytes(b"<style>" * 150_000)
    with console.client() as client:
        assert client.get("/console/files/report?file=assets/page.html&preview=1").status_code == 200
        refused = client.get("/console/files/report?file=assets/large.html&preview=1")
        assert refused.status_code == 413
        assert "at most 1,048,576 bytes" in refused.text
        page = client.get("/console/skills/report?tab=files&file=assets/large.html&preview=1")
        assert "at most 1,048,576 bytes" in page.text
        assert "<iframe" not in page.text
        assert client.get("/console/files/report?file=assets/large.html").status_code == 200
