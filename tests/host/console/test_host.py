"""The screen Host, the routes below `/admin`, and the commands for the same."""

from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from openskills.host.auth import read_keys
from openskills.host.console.host import TABS
from tests.host.console.conftest import ConsoleHost, check_accessibility, open_console, write_samples
from tests.host.hosting import key_in
from tests.long_form import cases


# Both languages, but each tab only in one; in the long form in both.
@pytest.mark.parametrize(("locale", "first"), cases([("en-US", 0), ("zh-CN", 1)], [("en-US", 1), ("zh-CN", 0)]))
def test_every_tab_is_accessible_on_a_phone_and_on_a_desk(
    console: ConsoleHost, axe: str, locale: str, first: int
) -> None:
    page = console.page("/console/host", locale=locale)
    for tab in TABS[first::2]:
        page.goto(f"{console.url}/console/host?tab={tab}")
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (tab, width)
        check_accessibility(page, axe)


def test_keys_are_created_replaced_and_revoked_in_a_browser(tmp_path: Path, browser: Browser) -> None:
    with open_console(tmp_path, browser) as console:
        page = console.page("/console/host?tab=keys")
        keys = console.served.parts.settings.host_keys
        page.on("dialog", lambda dialog: dialog.accept())
        page.get_by_label("Name").fill("partner")
        page.get_by_label("Role").select_option("read")
        page.get_by_label("Scopes").fill("file_* echo")
        page.get_by_label("Limits").fill("rate=5")
        page.get_by_role("button", name="Create").click()
        first = page.locator("#new-key").inner_text()
        assert first.startswith("osk_")
        (stored,) = read_keys(keys)
        assert (stored.role, stored.scopes, stored.rate_per_second) == ("read", ("file_*", "echo"), 5)
        page.get_by_text("Change").click()
        page.get_by_label("Scopes of partner").fill("echo")
        page.get_by_role("button", name="Save").click()
        expect(page.locator("tbody td", has_text="file_*")).to_have_count(0)
        assert [(one.scopes, one.digest) for one in read_keys(keys)] == [(("echo",), stored.digest)]
        page.get_by_role("button", name="Rotate").click()
        expect(page.locator("#new-key")).not_to_have_text(first)
        page.goto(f"{console.url}/console/host?tab=keys")
        assert first[:20] not in page.content()
        page.get_by_role("button", name="Revoke").click()
        expect(page.get_by_text("No keys yet")).to_be_visible()
        assert read_keys(keys) == ()
        page.get_by_label("Name").fill("x")
        page.get_by_label("Expires after").fill("soon")
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("alert")).to_contain_text("invalid duration")
        # At its field, with everything that was entered.
        expect(page.get_by_label("Expires after")).to_have_attribute("aria-invalid", "true")
        expect(page.get_by_label("Name")).to_have_value("x")
        page.get_by_label("Expires after").fill("")
        page.get_by_label("Limits").fill("speed=5")
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("alert")).to_contain_text("unknown limit 'speed'")


def test_sessions_are_listed_and_ended(tmp_path: Path, browser: Browser) -> None:
    with open_console(tmp_path, browser) as console:
        page, other = console.page("/console/host?tab=sessions"), console.page()
        page.reload()
        expect(page.locator("tbody tr")).to_have_count(2)
        page.locator("tbody tr", has_not_text="this one").get_by_role("button", name="End").click()
        expect(page.locator("tbody tr")).to_have_count(1)
        other.reload()
        assert other.url.startswith(f"{console.url}/console/login")


def test_administration_needs_the_role(tmp_path: Path, browser: Browser) -> None:
    write_samples(tmp_path / "skills")
    runner, admin = key_in(tmp_path, "runner"), key_in(tmp_path, "ops", role="admin")
    with open_console(tmp_path, browser) as console:
        client = console.served.client
        for method, path in (
            ("GET", "status"),
            ("GET", "keys"),
            ("POST", "keys"),
            ("POST", "reload"),
            ("GET", "doctor"),
        ):
            answer = client.request(method, f"/admin/{path}", headers={"Authorization": f"Bearer {runner}"})
            assert answer.status_code == 403
            assert "admin is needed" in answer.json()["error"]["message"]
        with httpx2.Client(
            verify=False, base_url=console.url, headers={"Authorization": f"Bearer {admin}"}, timeout=60
        ) as ops:
            status = ops.get("/admin/status").json()["data"]
            assert (status["status"], status["skills"]["ready"]) == ("ready", 1)
            (process,) = status["processes"]
            assert (process["is_this"], process["in_flight"], process["waiting"]) == (True, 0, 0)
            made = ops.post(
                "/admin/keys",
                json={"name": "new", "role": "read", "scopes": ["echo"], "expires": "1h", "limits": ["rate=5"]},
            )
            assert made.json()["data"]["key"].startswith("osk_")
            assert made.json()["data"]["use"] == {"running": 0, "waiting": 0, "calls_left": 5}
            again = ops.post("/admin/keys", json={"name": "new"})
            assert (again.status_code, "exists" in again.json()["error"]["message"]) == (400, True)
            scoped = ops.request("PATCH", "/admin/keys/new", json={"scopes": ["echo", "file_*"]}).json()["data"]
            assert (scoped["scopes"], scoped["begins"]) == (["echo", "file_*"], made.json()["data"]["begins"])
            assert ops.request("PATCH", "/admin/keys/new", json={"role": "admin"}).status_code == 400
            assert ops.request("PATCH", "/admin/keys/none", json={"scopes": ["echo"]}).status_code == 400
            rotated = ops.post("/admin/keys/new:rotate").json()["data"]
            assert (rotated["role"], rotated["scopes"]) == ("read", ["echo", "file_*"])
            assert rotated["key"] != made.json()["data"]["key"]
            assert ops.request("DELETE", "/admin/keys/new").json()["data"] == {"revoked": "new"}
            assert ops.request("DELETE", "/admin/keys/new").status_code == 400
            assert ops.post("/admin/reload").json()["data"]["hosted"]["added"] == []
            assert ops.get("/admin/workspaces").json()["data"] == {"workspaces": []}
            assert ops.post("/admin/workspaces:clean", json={"older_than": "0s"}).json()["data"]["removed"] == []
            assert ops.get("/admin/packages").json()["data"] == {"environments": []}
            assert ops.post("/admin/packages:clean").json()["data"] == {"removed": []}
            assert ops.get("/admin/sessions").json()["data"] == {"sessions": []}
            assert ops.request("DELETE", "/admin/sessions/none").status_code == 400


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "../x"}, "name"),
        ({"name": "console"}, "name"),
        ({"name": "a", "role": "root"}, "role"),
        ({"name": "a", "scopes": "A B"}, "scope"),
        ({"name": "a", "scopes": [1]}, "scopes"),
        ({"name": "a", "expires": "soon"}, "expires"),
        ({"name": "a", "limits": ["x=1"]}, "limit"),
        ({"name": "a", "odd": 1}, "odd"),
        ({}, "name"),
        ([], "body"),
    ],
)
def test_a_wrong_field_of_a_key_is_named(console: ConsoleHost, body: object, field: str) -> None:
    with console.client() as client:
        answer = client.post("/admin/keys", json=body)
        assert answer.status_code == 400
        assert field in answer.json()["error"]["message"]


def test_unknown_paths_and_methods_are_refused(console: ConsoleHost) -> None:
    with console.client() as client:
        assert client.get("/admin/nothing").status_code == 404
        wrong = client.request("PUT", "/admin/keys")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, POST")
        assert client.post("/console/host/clean/everything", data={}).status_code == 404


def test_new_skills_are_found_without_a_restart(console: ConsoleHost) -> None:
    from tests.skill_writer import skill_writer

    skill_writer(console.skills, ".")("brand-new", "Appeared while the host was running.")
    with console.client() as client:
        changes = client.post("/admin/reload").json()["data"]["catalog"]
        assert "brand-new" in changes["added"] or "brand-new" in client.get("/").text
