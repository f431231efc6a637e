"""The screen Cluster in a browser. Its nodes are tested with a real cluster in tests/executors/ray."""

from pathlib import Path

from playwright.sync_api import Browser, expect

from openskills.host.console.cluster import PAGES
from tests.host.console.conftest import ConsoleHost, check_accessibility, open_console
from tests.servers.postgres import PostgresServer


def test_hosts_that_share_a_database_are_shown(
    tmp_path: Path, browser: Browser, axe: str, postgres_server: PostgresServer
) -> None:
    with open_console(tmp_path, browser, host_database=postgres_server.new_database()) as console:
        page = console.page()
        page.get_by_role("link", name="Cluster").click()
        row = page.locator("tbody tr")
        expect(row).to_contain_text("alive")
        expect(row).to_contain_text("this one")
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        check_accessibility(page, axe)


def test_a_host_that_runs_alone_has_no_entry_for_it(console: ConsoleHost) -> None:
    page = console.page()
    expect(page.get_by_role("link", name="Host")).to_be_visible()
    expect(page.get_by_role("link", name="Cluster")).to_have_count(0)
    page.goto(console.url + PAGES[0][1])
    expect(page.get_by_text("This host runs alone")).to_be_visible()
    with console.client() as client:
        assert client.get("/admin/cluster").json()["data"] == {"cluster": None, "hosts": None}
        refused = client.post("/admin/cluster/nodes/abc:drain")
        assert (refused.status_code, "set OPENSKILL_EXECUTOR=ray" in refused.text) == (400, True)
        assert "openskills_cluster_up" not in client.get("/metrics").text
