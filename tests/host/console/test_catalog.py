"""The screen Catalog: search, filters, states, pages, and hostile skills."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from openskills.host.console.catalog import mark_matches
from openskills.host.parts import HostOptions
from tests.host.console.conftest import ConsoleHost, check_accessibility, open_console, write_samples
from tests.host.hosting import key_in, served
from tests.host.vendors.uploading import PUBLISHER, WRITER, bearer, form_of, skill_files, uploading_host
from tests.skill_writer import skill_writer

HOSTILE_TEXTS = [
    "<script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "<svg/onload=window.hacked=1>",
    "javascript:window.hacked=1",
    "{{ 7*7 }}{% raw %}${7*7}",
    "\u202egnp.exe\u202c right to left",
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "x" * 900,
    "hx-get=/admin/keys hx-trigger=load",
    "<style>*{display:none}</style>",
    "<iframe src=https://evil.example></iframe>",
    "<meta http-equiv=refresh content=0;url=https://evil.example>",
    "<base href=https://evil.example/>",
    "<form action=https://evil.example><button>x</button></form>",
    "![x](https://evil.example/x.png) [y](javascript:alert(1))",
    "&lt;script&gt;window.hacked=1&lt;/script&gt;",
    "</title></head><script>window.hacked=1</script>",
    "--><script>window.hacked=1</script><!--",
    "%3Cscript%3Ewindow.hacked=1%3C/script%3E",
    "' onmouseover='window.hacked=1",
]


def write_hostile(skills: Path, count: int = 100) -> None:
    """Skills whose names, descriptions, bodies and file names are attacks."""
    skills.mkdir(exist_ok=True)
    for number in range(count):
        attack = HOSTILE_TEXTS[number % len(HOSTILE_TEXTS)]
        name = f"h{number:03}-{attack}" if number < len(HOSTILE_TEXTS) else f"hostile-{number:03}"
        folder = skills / f"h{number:03}"
        (folder / "references").mkdir(parents=True)
        fields = {"name": name, "description": f"{attack} {number}", "license": attack}
        front = "\n".join(f"{field}: {json.dumps(value)}" for field, value in fields.items())
        table = f"| a | b |\n|---|---|\n| {attack} | x |\n"
        body = f"# {attack}\n\n{attack}\n\n[link]({attack})\n\n```\n{attack}\n```\n\n{table}"
        (folder / "SKILL.md").write_text(f"---\n{front}\n---\n\n{body}", "utf-8")
        safe = re.sub(r"[/\x00]", "_", attack)[:80]
        (folder / "references" / f"{safe}.md").write_text(attack, "utf-8")
        (folder / "page.html").write_text(f"<h1>{attack}</h1><script>parent.hacked=1</script>", "utf-8")
        (folder / "raw.bin").write_bytes(b"\x1b[31m\x00\xff" + attack.encode())


def test_searching_while_typing_ranks_and_marks(console: ConsoleHost) -> None:
    page = console.page()
    page.keyboard.press("/")
    page.keyboard.type("merging pdfs")
    expect(page.locator("tbody .name").first).to_have_text("pdf-tools")
    expect(page.locator("tbody tr")).to_have_count(2)
    assert page.locator("tbody tr").first.locator(".why mark").all_inner_texts() == ["Merge", "PDF", "PDF"]
    # Another language for the same thing.
    assert page.locator("tbody tr").last.locator("mark").all_inner_texts() == ["合并"]
    assert page.url.endswith("?q=merging+pdfs&source=&state=&problems=")
    page.reload()
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_label("Search", exact=True).fill("日志")
    expect(page.locator("tbody .name").first).to_have_text("log-triage")
    assert "日志" in page.locator("tbody mark").all_inner_texts()
    page.get_by_label("Search", exact=True).fill("zzzz nothing")
    page.get_by_text("No skill matches").wait_for()


def test_filters_show_hidden_and_left_out_skills_with_the_reason(console: ConsoleHost) -> None:
    page = console.page()
    page.get_by_label("State").select_option("hidden")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert "only users may invoke it" in page.locator("tbody tr").inner_text()
    page.get_by_label("State").select_option("left_out")
    page.get_by_text("no-front-matter").wait_for()
    assert "front matter" in page.locator("tbody tr .why").inner_text()
    page.get_by_label("State").select_option("")
    page.get_by_label("Source").select_option("hosted")
    page.locator("tbody .name", has_text="echo").wait_for()
    page.get_by_role("link", name="echo").click()
    assert page.get_by_role("heading", name="echo", exact=True).is_visible()
    assert "/skills/echo:invoke" in page.content()


def test_reading_works_without_scripts(console: ConsoleHost) -> None:
    page = console.page(java_script_enabled=False)
    page.get_by_label("Search", exact=True).fill("invoices")
    page.get_by_role("button", name="Search").click()
    assert page.locator("tbody .name").first.inner_text() == "invoices"
    page.get_by_role("link", name="invoices").click()
    assert page.get_by_role("heading", name="invoices", exact=True).is_visible()
    page.get_by_role("link", name="Files").click()
    page.get_by_role("link", name="SKILL.md").click()
    assert "name: invoices" in page.locator("pre.lines").inner_text()


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_catalog_is_accessible_and_fits(console: ConsoleHost, axe: str, locale: str, width: int) -> None:
    page = console.page("/?q=files", locale=locale, viewport={"width": width, "height": 800})
    assert page.get_by_role("heading", name="目录" if locale == "zh-CN" else "Catalog").is_visible()
    check_accessibility(page, axe)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.emulate_media(color_scheme="dark")
    check_accessibility(page, axe)


def test_hostile_skills_are_inert_everywhere(tmp_path: Path, browser: Browser, axe: str) -> None:
    write_hostile(tmp_path / "skills")
    with open_console(tmp_path, browser) as console:
        page = console.page("/?state=ready")
        seen: list[str] = []
        for address in ("/", "/?page=2", "/?q=script", "/?q=" + "%3Cscript%3E", "/console/host?tab=sources"):
            page.goto(console.url + address)
            seen.append(page.content())
            assert page.evaluate("window.hacked") is None
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
        check_accessibility(page, axe)
        page.goto(console.url)
        links = [str(link.get_attribute("href")) for link in page.locator("tbody a.name[href*=skills]").all()]
        assert len(links) >= 20
        for link in links[:24]:
            for tab in ("instructions", "files", "problems"):
                page.goto(f"{console.url}{link}?tab={tab}")
                assert page.locator("h1").count() == 1, link
                assert page.evaluate("window.hacked") is None
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{link} {tab}"
        page.goto(f"{console.url}{links[0]}?tab=files&file=page.html&preview=1")
        # Nothing can run in it, not even what a test would ask it with.
        assert [frame.url.rpartition("/")[2] for frame in page.frames][1].endswith("preview=1")
        assert page.evaluate("window.hacked") is None
        # The frame has an origin of its own and runs nothing; Chromium says so.
        console.faults[:] = [
            fault for fault in console.faults if "sandbox" not in fault and "Content Security" not in fault
        ]
        for path in ("raw.bin", "../../../etc/passwd", "nothing", "references"):
            page.goto(f"{console.url}{links[0]}?tab=files&file={path}")
            assert page.locator("h1").count() == 1


def test_a_key_sees_only_the_skills_of_its_scopes(tmp_path: Path, browser: Browser) -> None:
    write_samples(tmp_path / "skills")
    key = key_in(tmp_path, "some", scopes=("pdf_*",))
    with open_console(tmp_path, browser) as console:
        headers = {"Authorization": f"Bearer {key}"}
        listed = console.served.client.get("/catalog", headers=headers).json()["data"]
        assert [one["name"] for one in listed["skills"]] == ["pdf-tools"]
        assert console.served.client.get("/catalog/invoices", headers=headers).status_code == 403
        assert console.served.client.get("/catalog/pdf-tools", headers=headers).status_code == 200
        page = console.served.client.get("/", headers=headers)
        assert "pdf-tools" in page.text
        assert "invoices" not in page.text
        assert console.served.client.get("/console/skills/invoices", headers=headers).status_code == 403
        assert console.served.client.get("/console/host?tab=keys", headers=headers).status_code == 403


def test_private_uploads_and_places_of_uploads_are_not_shown_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Paths below the directory of the start are shown to everybody, except those of uploads.
    monkeypatch.chdir(tmp_path)
    keys = {name: bearer(key_in(tmp_path, name, scopes=WRITER)) for name in ("ada", "bob")}
    keys["all"] = bearer(key_in(tmp_path, "all", scopes=("*",)))
    keys["chief"] = bearer(key_in(tmp_path, "chief", scopes=PUBLISHER, role="admin"))
    with uploading_host(tmp_path) as host:
        for name, skill in (("ada", "diary"), ("chief", "greeter")):
            form = form_of(skill_files(skill, description=f"About the {skill}."))
            host.client.post("/v1/skills", files=form, headers=keys[name]).raise_for_status()
        for name, expected in {"ada": {"diary~ada", "greeter"}, "bob": {"greeter"}, "all": {"greeter"}}.items():
            listed = host.client.get("/catalog", headers=keys[name])
            assert {one["name"] for one in listed.json()["data"]["skills"]} == expected
            assert host.client.get("/catalog?q=diary", headers=keys[name]).json()["data"]["total"] == len(expected) - 1
            page, about = (host.client.get(path, headers=keys[name]) for path in ("/", "/catalog/greeter"))
            assert ("About the diary." in page.text) == (name == "ada")
            assert about.status_code == 200
            for answer in (listed, page, about, host.client.get("/console/skills/greeter", headers=keys[name])):
                assert "greeter" in answer.text
                assert not re.search("openskills/uploads|live/|trees/", answer.text)
        seen = host.client.get("/catalog", headers=keys["chief"])
        assert {one["name"] for one in seen.json()["data"]["skills"]} == {"greeter"}
        assert str(tmp_path) in seen.text


@pytest.mark.parametrize("is_named", [False, True])
def test_personal_skills_are_for_administrators_unless_they_are_served(tmp_path: Path, *, is_named: bool) -> None:
    personal = tmp_path / ".agents" / "skills"
    skill_writer(personal, ".")("diary", "What I did today.", body="secret")
    roles = {role: bearer(key_in(tmp_path, role, role=role)) for role in ("read", "run", "admin")}
    options = HostOptions(watch=False, skills=(personal,) if is_named else ())
    with served(tmp_path, options=options, host_uploads=None) as host:
        for role, headers in roles.items():
            is_shown = is_named or role == "admin"
            listed = host.client.get("/catalog", headers=headers).json()["data"]["skills"]
            assert [one["name"] for one in listed] == ["diary"] * is_shown + ["echo"]
            found = host.client.get("/catalog?q=today", headers=headers).json()["data"]
            assert found["total"] == is_shown
            page = host.client.get("/", headers=headers)
            assert "echo" in page.text
            assert ("diary" in page.text) == is_shown
            for path in (
                "/catalog/diary",
                "/catalog/diary?file=SKILL.md",
                "/console/skills/diary",
                "/console/skills/diary?tab=files&file=SKILL.md",
                "/console/files/diary?file=SKILL.md",
            ):
                answer = host.client.get(path, headers=headers)
                assert answer.status_code == (200 if is_shown else 404), path
                assert is_shown or "secret" not in answer.text
            for path in ("/catalog/diaryy", "/console/skills/diaryy"):
                near = host.client.get(path, headers=headers)
                assert is_shown or not re.search(r"diary\b", near.text)


def test_the_api_lists_pages_and_refuses_wrong_parameters(console: ConsoleHost) -> None:
    client = console.served.client
    listed = client.get("/catalog?limit=2&offset=1").json()["data"]
    assert (len(listed["skills"]), listed["total"]) == (2, 6)
    found = client.get("/catalog", params={"q": "merge pdf"}).json()["data"]["skills"]
    assert found[0]["name"] == "pdf-tools"
    for query in ("limit=0", "limit=x", "offset=-1", "state=odd", "problems=maybe"):
        answer = client.get(f"/catalog?{query}")
        assert answer.status_code == 400
        assert query.partition("=")[0] in answer.json()["error"]["message"]


def test_pages_of_a_long_list_can_be_linked(tmp_path: Path, browser: Browser) -> None:
    write = skill_writer(tmp_path / "skills", ".")
    for number in range(120):
        write(f"skill-{number:03}", f"Does the thing number {number}.")
    with open_console(tmp_path, browser) as console:
        page = console.page("/?q=thing&page=2")
        assert page.locator("tbody tr").count() == 50
        page.get_by_role("link", name="Next").click()
        assert page.locator("tbody tr").count() == 20
        page.go_back()
        assert page.locator("tbody tr").count() == 50
        page.goto(f"{console.url}/?page=999999")
        assert page.get_by_text("Page 3 of 3").is_visible()


def test_marks_are_the_words_that_the_search_matches() -> None:
    parts = mark_matches("Merges PDF files, and converts images.", "merge pdfs")
    assert [part.text for part in parts if part.is_match] == ["Merges", "PDF"]
    assert "".join(part.text for part in parts) == "Merges PDF files, and converts images."
    long = mark_matches("word " * 200 + "needle end", "needle")
    assert long[0].text == "…"
    assert any(part == ("needle", True) for part in long)
    assert mark_matches("", "x") == []
