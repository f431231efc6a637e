"""Access, sessions, languages and headers of the console, and the rules for its templates."""

import ast
import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import cast

import httpx2
import jinja2
import pytest
import typer.main
from jinja2 import nodes
from jinja2.ext import extract_from_ast
from playwright.sync_api import Browser
from typer.core import TyperGroup

from openskills.catalog.skill import ResourceKind
from openskills.cli.main import app
from openskills.host.auth import ROLES
from openskills.host.console import pages
from openskills.host.console.access import build_cookie
from openskills.host.console.catalog import STATES
from openskills.host.console.pages import LANGUAGES, SCREENS, choose_language, local_address, to_visible
from openskills.host.database import find_database
from openskills.host.http import HttpExchange
from openskills.host.keys import KeyFile
from openskills.host.parts import HostOptions
from openskills.sync import run
from tests.host.console.conftest import ConsoleHost, check_accessibility, open_console
from tests.host.hosting import key_in, revoke_key, served

CONSOLE = Path(pages.__file__).parent
TEMPLATES = sorted(path.name for path in (CONSOLE / "templates").iterdir())
UNSAFE = re.compile(r"unsafe-|\*|https?:")


def open_client(url: str, **more: object) -> httpx2.Client:
    return httpx2.Client(verify=False, base_url=url, timeout=20, **more)  # type: ignore[arg-type]


# Access


def test_a_link_works_once_and_leaves_no_secret_in_the_address(console: ConsoleHost) -> None:
    link = console.create_link()
    with open_client(console.url) as client:
        answer = client.get(link)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert client.get("/").status_code == 200
    with open_client(console.url) as other:
        again = other.get(link)
        assert again.status_code == 401
        assert "openskills console link" in again.text
        assert "set-cookie" not in again.headers


def test_without_a_session_pages_lead_to_the_login_and_back(console: ConsoleHost) -> None:
    with open_client(console.url) as client:
        answer = client.get("/?q=pdf")
        assert answer.status_code == 303
        assert answer.headers["location"] == "/console/login?next=%2F%3Fq%3Dpdf"
        part = client.get("/", headers={"HX-Request": "true", "HX-Request-Type": "partial"})
        assert part.headers["hx-redirect"].startswith("/console/login")


def test_a_link_is_refused_through_a_proxy(console: ConsoleHost) -> None:
    with open_client(console.url, headers={"X-Forwarded-For": "192.0.2.7"}) as client:
        assert client.get(console.create_link()).status_code == 401


def test_a_key_is_exchanged_for_a_cookie_and_its_revocation_ends_the_session(tmp_path: Path) -> None:
    key = key_in(tmp_path, "reader", role="read")
    with served(tmp_path) as host, open_client(host.url, headers={"Origin": host.url}) as client:
        answer = client.post("/console/login", data={"key": key, "next": "/?q=x"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/?q=x")
        assert key not in str(answer.headers)
        assert "reader" in client.get("/").text
        # The cookie is also accepted by the API, with the rights of the key.
        assert client.get("/skills").status_code == 200
        refused = client.post("/skills/echo:invoke", json={"input": {"text": "x"}})
        assert refused.status_code == 403
        assert "the role is read, and run is needed" in refused.json()["error"]["message"]
        revoke_key(host.parts.settings.host_keys, "reader")
        host.parts.authenticator.sessions._keys._look_at = 0.0  # type: ignore[union-attr]
        assert client.get("/").status_code == 303


def test_a_replaced_key_ends_its_sessions_and_keeps_its_role(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    key = key_in(tmp_path, "ops", role="admin")
    with served(tmp_path) as host, open_client(host.url, headers={"Origin": host.url}) as client:
        client.post("/console/login", data={"key": key})
        assert client.get("/").status_code == 200
        fresh, stored = run(KeyFile(host.parts.settings.host_keys).rotate("ops", now=datetime.now(UTC)))
        assert (stored.name, stored.role) == ("ops", "admin")
        host.parts.authenticator.sessions._keys._look_at = 0.0  # type: ignore[union-attr]
        assert client.get("/").status_code == 303
        assert client.post("/console/login", data={"key": key}).status_code == 401
        assert client.post("/console/login", data={"key": fresh}).status_code == 303


@pytest.mark.parametrize("key", ["", "osk_" + "a" * 43, "x" * 5000, "<script>alert(1)</script>", "\x00"])
def test_a_wrong_key_is_refused_without_being_shown(console: ConsoleHost, key: str) -> None:
    with open_client(console.url, headers={"Origin": console.url}) as client:
        answer = client.post("/console/login", data={"key": key})
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        assert len(key) < 10 or key not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://127.0.0.1:1"},
    ],
)
def test_changes_that_another_site_asks_for_are_refused(console: ConsoleHost, headers: dict[str, str]) -> None:
    with console.client() as client:
        cookies = dict(client.cookies)
    with open_client(console.url, cookies=cookies) as other:
        assert other.get("/").status_code == 200
        for path in ("/console/logout", "/console/preferences"):
            assert other.post(path, data={"language": "zh"}, headers=headers).status_code == 403
        invoked = other.post("/skills/echo:invoke", json={"input": {"text": "x"}}, headers=headers)
        assert invoked.status_code == 403
        assert other.get("/").status_code == 200


def test_sessions_are_listed_and_logging_out_ends_one(console: ConsoleHost) -> None:
    with console.client() as client, console.client() as other:
        assert client.post("/console/logout", data={}).url.path == "/console/login"
        assert client.get("/", follow_redirects=False).status_code == 303
        assert other.get("/").status_code == 200


def test_the_console_can_be_switched_off(tmp_path: Path) -> None:
    with served(tmp_path, options=HostOptions(watch=False, console=False)) as host:
        for path in ("/", "/console/login"):
            answer = host.client.get(path)
            assert (answer.status_code, answer.json()["success"]) == (404, False)
        assert host.client.get("/", headers={"Cookie": "openskills_console=x"}).status_code == 404


@pytest.mark.parametrize(
    "address", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "", "/\nx", "/é"]
)
def test_the_way_back_after_a_login_stays_on_this_host(address: str) -> None:
    assert local_address(address) == "/"


# Languages


@pytest.mark.parametrize(
    ("chosen", "accepted", "language"),
    [
        ("", "", "en"),
        ("", "zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("", "de,en;q=0.5,zh;q=0.7", "zh"),
        ("", "fr", "en"),
        ("en", "zh", "en"),
        ("xx", "zh", "zh"),
        ("", "zh;q=nonsense, ;;,", "en"),
    ],
)
def test_the_language_is_the_chosen_one_or_the_best_accepted(chosen: str, accepted: str, language: str) -> None:
    assert choose_language(chosen, accepted) == language


def test_language_and_theme_are_kept_in_cookies(console: ConsoleHost) -> None:
    with console.client() as client:
        answer = client.post("/console/preferences", data={"language": "zh", "theme": "dark", "next": "/"})
        assert 'lang="zh-Hans" data-theme="dark"' in answer.text
        assert "目录" in answer.text
        client.post("/console/preferences", data={"language": "<b>", "theme": "pink"})
        assert 'lang="zh-Hans" data-theme="dark"' in client.get("/").text


def environment() -> jinja2.Environment:
    return jinja2.Environment(loader=jinja2.FileSystemLoader(CONSOLE / "templates"), autoescape=True)


def messages_of_templates() -> Iterator[tuple[str, str]]:
    for name in TEMPLATES:
        tree = environment().parse((CONSOLE / "templates" / name).read_text("utf-8"))
        for _, function, found in extract_from_ast(tree, ("_", "_n")):
            # None where the text is an expression, such as the state of a skill.
            texts = (found,) if isinstance(found, str) else tuple(found or ())
            yield from ((name, text) for text in texts[: 2 if function == "_n" else 1] if text)


def messages_of_modules() -> Iterator[tuple[str, str]]:
    """Texts that modules give to `request.translate`, and tables of texts that templates translate."""
    for path in sorted(CONSOLE.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
                if name == "translate":
                    yield from ((path.name, str(part.value)) for part in node.args if isinstance(part, ast.Constant))
    yield from (("SCREENS", screen.title) for screen in SCREENS if screen.title)
    # Words that templates get from modules.
    yield from (("STATES", state.replace("_", " ")) for state in STATES)
    yield from (("ROLES", role) for role in ROLES)
    yield from (("ResourceKind", kind.value) for kind in ResourceKind)
    requirements = ("package", "import", "program", "secret", "optional", "platform", "network")
    yield from (("skill.py", kind) for kind in requirements)
    yield from (("host.py", word) for word in ("starting", "draining", "auto", "on", "off", "catalog", "host"))


def test_every_action_of_the_guide_is_a_request_and_a_command(console: ConsoleHost) -> None:
    guide = (CONSOLE.parents[3] / "docs" / "guides" / "console.md").read_text("utf-8")
    rows = [line.split("|")[2:4] for line in guide.partition("| on the page | HTTP |")[2].splitlines()[2:]]
    root = cast("TyperGroup", typer.main.get_command(app))
    missing: list[str] = []
    for line in re.findall(r"`openskills ([^`-]+)", " ".join(commands for _, commands in rows)):
        noun, _, verb = line.strip().partition(" ")
        group = root.commands.get(noun)
        is_known = verb in group.commands if verb and isinstance(group, TyperGroup) else group is not None and not verb
        missing += [] if is_known else [line]
    with console.client() as client:
        for method, path in re.findall(r"`([A-Z]+) (/[^`]+)`", " ".join(http for http, _ in rows)):
            # With names that nobody has: a route that does not exist has another message.
            address = re.sub(r"{\w+}", "none", path).replace("/doctor", "/doctor?skill=none")
            answer = client.request(method, address, json={})
            is_unknown = answer.status_code == 405 or "UNKNOWN_ADDRESS" in answer.text
            missing += [f"{method} {path}"] if is_unknown else []
    assert not missing
    assert len(rows) > 20


def test_every_text_has_a_translation() -> None:
    wanted = {text: where for where, text in (*messages_of_templates(), *messages_of_modules())}
    for language in set(LANGUAGES) - {"en"}:
        folder = files("openskills.host.console") / "locale" / language
        found: dict[str, str] = {}
        for file in folder.iterdir():
            for text, translation in json.loads(file.read_bytes()).items():
                assert found.get(text, translation) == translation, f"{text!r} is translated in two ways"
                assert set(re.findall(r"{\w+}", text)) == set(re.findall(r"{\w+}", translation)), text
                found[text] = translation
        missing = {text: where for text, where in wanted.items() if text not in found}
        assert not missing


def test_templates_contain_no_text_without_a_translation() -> None:
    for name in TEMPLATES:
        tree = environment().parse((CONSOLE / "templates" / name).read_text("utf-8"))
        # Parts between expressions are joined, so that a tag with an expression in it is still a tag.
        data = "\x00".join(
            node.data
            for output in tree.find_all(nodes.Output)
            for node in output.nodes
            if isinstance(node, nodes.TemplateData)
        )
        data = re.sub(r"<(code|pre|script|svg)\b[^>]*>.*?</\1>", " ", data, flags=re.DOTALL)
        shown = re.sub(r"<[^>]*>", " ", data)
        attributes = re.findall(r'(?:placeholder|title|alt|aria-label|data-label)="([^"\x00]+)', data)
        words = re.findall(
            r"[A-Za-z]{2,}",
            " ".join([shown, *attributes]).replace("OpenSkill", "").replace("osk_", "").replace("SKILL.md", ""),
        )
        assert not words, f"{name}: {words}"


# Headers and static files


def test_every_page_has_strict_headers(console: ConsoleHost) -> None:
    with console.client() as client:
        for path in ("/", "/console/login", "/console/nowhere", "/?token=wrong"):
            headers = client.get(path, follow_redirects=False).headers
            policy = headers["content-security-policy"]
            assert not UNSAFE.search(policy)
            assert "frame-ancestors 'none'" in policy
            assert headers["x-frame-options"] == "DENY"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "same-origin"
            assert headers["cache-control"] == "no-store"


def test_static_files_are_compressed_and_kept_by_browsers(console: ConsoleHost) -> None:
    with console.client() as client:
        names = re.findall(r'(?:src|href)="(/console/static/[^"]+)"', client.get("/").text)
        assert len(names) >= 4
        for name in names:
            answer = client.get(name, headers={"Accept-Encoding": "gzip"})
            assert answer.status_code == 200
            assert "immutable" in answer.headers["cache-control"]
        css = next(name for name in names if name.endswith(".css"))
        assert client.get(css, headers={"Accept-Encoding": "gzip"}).headers["content-encoding"] == "gzip"
        assert client.get(css, headers={"Accept-Encoding": "identity"}).text.startswith("/*")
        assert client.get("/console/static/old/console.css").headers["cache-control"] == "no-cache"
        for path in (
            "/console/static/x/../pages.py",
            "/console/static/x/%2e%2e/pages.py",
            "/console/static/x/nothing.js",
        ):
            assert client.get(path).status_code in (303, 404)


def test_errors_are_pages_and_as_parts_notices(console: ConsoleHost) -> None:
    with console.client() as client:
        answer = client.get("/?state=<script>alert(1)</script>")
        assert (answer.status_code, "<script>alert" in answer.text) == (400, False)
        assert "is not one of ready" in answer.text
        part = client.get("/?state=x", headers={"HX-Request": "true", "HX-Request-Type": "partial"})
        assert part.headers["hx-retarget"] == "#notice"
        assert "<html" not in part.text


def test_hidden_characters_become_visible() -> None:
    assert to_visible("a\u202eb\x1b[31m\x00\n\tc") == "a\\u202eb\\x1b[31m\\x00\n\tc"
    assert to_visible("中文 – ok") == "中文 – ok"


def test_a_cookie_over_https_is_secure() -> None:
    scope = {"type": "http", "method": "GET", "headers": [(b"x-forwarded-proto", b"https")], "path": "/"}
    exchange = HttpExchange(scope, None, None)  # type: ignore[arg-type]
    assert b"; Secure" in build_cookie(exchange, "a", "b", seconds=1)


# In a browser


def test_logging_in_with_a_key_in_a_browser(tmp_path: Path, browser: Browser, axe: str) -> None:
    key = key_in(tmp_path, "me", role="admin")
    with open_console(tmp_path, browser) as console:
        page = console.page(link=f"{console.url}/")
        check_accessibility(page, axe)
        page.get_by_label("API key").fill("osk_wrong")
        page.get_by_role("button", name="Log in").click()
        assert "not valid" in page.get_by_role("alert").inner_text()
        page.get_by_label("API key").fill(key)
        page.keyboard.press("Enter")
        page.wait_for_url(f"{console.url}/")
        assert page.get_by_role("heading", name="Catalog").is_visible()
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url("**/console/login")
    assert Path(str(find_database(console.served.parts.settings))).exists()


def test_the_keyboard_is_enough_to_find_and_open_a_skill(console: ConsoleHost) -> None:
    page = console.page()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    page.keyboard.press("/")
    page.keyboard.type("invoices")
    page.locator("tbody mark").first.wait_for()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "name":
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/skills/invoices")


def test_the_language_and_theme_menus_apply_at_once(console: ConsoleHost) -> None:
    page = console.page()
    page.get_by_label("Language").select_option("zh")
    page.wait_for_selector("text=目录")
    page.get_by_label("主题").select_option("dark")
    page.wait_for_selector("html[data-theme=dark]")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 20, 19)"
