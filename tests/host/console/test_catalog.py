"""The screen Catalog: search, filters, states, pages, and hostile skills."""

import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from openskills.host.console.catalog import mark_matches
from openskills.host.parts import HostOptions
from openskills.project import SkillGrants
from openskills.settings import Settings
from tests.conftest import RequireProgram
from tests.host.console.conftest import ConsoleHost, check_accessibility, open_console, write_samples
from tests.host.hosting import echo, eventually, key_in, served
from tests.host.vendors.uploading import PUBLISHER, WRITER, bearer, form_of, skill_files, uploading_host
from tests.long_form import LONG, cases
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
        name = f"h{number:03}-{attack}"
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


@pytest.mark.parametrize(
    ("locale", "width"), cases([("en-US", 390), ("zh-CN", 1280)], [("en-US", 1280), ("zh-CN", 390)])
)
def test_the_catalog_is_accessible_and_fits(console: ConsoleHost, axe: str, locale: str, width: int) -> None:
    page = console.page("/?q=files", locale=locale, viewport={"width": width, "height": 800})
    assert page.get_by_role("heading", name="目录" if locale == "zh-CN" else "Catalog").is_visible()
    check_accessibility(page, axe)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.emulate_media(color_scheme="dark")
    check_accessibility(page, axe)
    page.goto(f"{console.url}/?q=zzzz")
    check_accessibility(page, axe)


def test_problems_are_those_that_validate_finds(tmp_path: Path, browser: Browser) -> None:
    write_samples(tmp_path / "skills")
    skill_writer(tmp_path / "skills", ".")("odd-metadata", "Does things.", front="metadata:\n  always: true\n")
    with open_console(tmp_path, browser) as console:
        with console.client() as client:
            found = client.get("/catalog", params={"problems": "yes"}).json()["data"]["skills"]
        assert ("odd-metadata", 1) in [(one["name"], one["warnings"]) for one in found]
        page = console.page()
        page.get_by_label("Problems").select_option("yes")
        expect(page.locator("tbody tr", has_text="odd-metadata")).to_contain_text("1 warning")
        expect(page.locator("tbody tr", has_text="invoices")).to_have_count(0)
        # A skill that cannot be used belongs to the source of its neighbours.
        expect(page.locator("tbody tr", has_text="no-front-matter")).to_contain_text("skills")


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
        links: list[str] = []
        for address in ("/?page=2", "/"):
            page.goto(console.url + address)
            assert page.locator("tbody tr").count() == 50
            links += [str(link.get_attribute("href")) for link in page.locator("tbody a.name[href*=skills]").all()]
        # The others are left out, because their names cannot be names.
        assert len(links) >= 25
        for number, link in enumerate(links[:24]):
            # The other tabs of every fourth; in the long form of all.
            for tab in ("instructions", "files", "problems")[: 3 if LONG or number % 4 == 0 else 1]:
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


@pytest.mark.parametrize("page", ["hosted", "try/hosted"])
def test_similar_names_that_a_key_may_not_use_are_not_suggested(tmp_path: Path, page: str) -> None:
    key = key_in(tmp_path, "some", scopes=("pdf_*",))
    with served(tmp_path, {"pdf_merge": echo, "odf_merge": echo}) as host:
        shown = host.client.get(f"/console/{page}/pdf_merg", headers=bearer(key))
        assert shown.status_code == 404
        assert "pdf_merge" in shown.text
        assert "odf_merge" not in shown.text


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
        for name, expected in {
            "ada": ["diary", "greeter"],
            "bob": ["greeter"],
            "all": ["greeter"],
            "chief": ["diary~ada", "greeter"],
        }.items():
            listed = host.client.get("/catalog", headers=keys[name])
            assert [one["name"] for one in listed.json()["data"]["skills"]] == expected
            assert host.client.get("/catalog?q=diary", headers=keys[name]).json()["data"]["total"] == len(expected) - 1
            is_seen = name in ("ada", "chief")
            page, about = (host.client.get(path, headers=keys[name]) for path in ("/", "/catalog/greeter"))
            assert ("About the diary." in page.text) == is_seen
            assert about.status_code == 200
            private = expected[0] if is_seen else "diary~ada"
            for address in (f"/console/skills/{private}", f"/catalog/{private}", f"/catalog/{private}?file=SKILL.md"):
                answer = host.client.get(address, headers=keys[name])
                assert answer.status_code == (200 if is_seen else 403), address
                assert ("About the diary." in answer.text) == is_seen
            assert host.client.get("/catalog/diary", headers=keys["bob"]).status_code == 404
            if name == "chief":
                assert str(tmp_path) in listed.text
                continue
            for answer in (listed, page, about, host.client.get("/console/skills/greeter", headers=keys[name])):
                assert "greeter" in answer.text
                assert not re.search("openskills/uploads|live/|trees/", answer.text)


def test_private_uploads_are_run_by_their_owner_and_by_administrators(
    tmp_path: Path, require_program: RequireProgram
) -> None:
    require_program("bwrap")
    keys = {name: bearer(key_in(tmp_path, name, scopes=WRITER)) for name in ("ada", "bob")}
    keys["chief"] = bearer(key_in(tmp_path, "chief", role="admin"))
    shared = tmp_path / "skills"
    skill_writer(shared, ".")("common", "For everybody.")
    # A secret of the operator for a skill of the same name, and for all others.
    grants = {"common": SkillGrants(secrets=("TOKEN",)), "*": SkillGrants(secrets=("TOKEN",))}
    options = HostOptions(watch=False, skills=(shared,), grants=grants)
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "TOKEN": "swordfish"}
    settings = Settings.from_env(environment)
    with served(tmp_path, {}, options=options, environment=settings.environment) as host:

        def ask(name: str, skill: str, command: str, workspace: str = "default") -> httpx2.Response:
            body = {"skill": skill, "command": command}
            return host.client.post(f"/workspaces/{workspace}/commands", json=body, headers=keys[name])

        def finish(name: str, run: str) -> dict[str, Any]:
            read = lambda: host.client.get(f"/runs/{run}", headers=keys[name]).json()["data"]  # noqa: E731
            eventually(lambda: read()["ended"] is not None)
            return read()

        for word in ("diary", "common"):
            form = form_of(skill_files(word, word=f"private {word}"), folder=word)
            host.client.post("/v1/skills", files=form, headers=keys["ada"]).raise_for_status()
        for name, skill in (("ada", "diary"), ("ada", "common"), ("chief", "diary~ada"), ("chief", "common~ada")):
            listed = host.client.get("/console/try", headers=keys[name])
            assert f"/console/try/skill/{skill}" in listed.text
            assert host.client.get(f"/console/try/skill/{skill}", headers=keys[name]).status_code == 200
            run = finish(name, ask(name, skill, "cat SKILL.md; echo $TOKEN").json()["data"]["id"])
            output = run["result"]["data"]["stdout"]
            assert f"Say private {skill.partition('~')[0]}." in output
            assert run["skill_id"] == skill
            # The secrets of the operator are not for uploads, also if an administrator runs them.
            assert "*" not in output
        # The skill of the operator, in the same workspace.
        run = finish("chief", ask("chief", "common", "cat SKILL.md; echo $TOKEN").json()["data"]["id"])
        assert "*" * len("swordfish") in run["result"]["data"]["stdout"]
        assert "private" not in run["result"]["data"]["stdout"]
        assert ask("bob", "diary", "ls").status_code == 404
        assert ask("bob", "diary~ada", "ls").status_code == 404
        assert ask("bob", "common", "ls").status_code == 202
        # While a command of one runs, the other cannot have its workspace.
        waiting = ask("chief", "common", "sleep 1000", "busy").json()["data"]["id"]
        refused = ask("chief", "diary~ada", "ls", "busy")
        assert (refused.status_code, refused.json()["error"]["details"]["reason"]) == (409, "REQUEST_IN_FLIGHT")
        host.client.post(f"/runs/{waiting}:cancel", headers=keys["chief"]).raise_for_status()


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
