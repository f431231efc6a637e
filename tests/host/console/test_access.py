"""Links and sessions of the console in the host's database."""

import subprocess
import sys
from pathlib import Path

import pytest

from openskills.host.auth import KeyRing
from openskills.host.console.access import ConsoleSessions, check_same_origin
from openskills.host.database import Database
from openskills.host.http import HttpExchange, HttpRefusal
from tests.host.exchanges import Sent


async def test_expired_links_and_sessions_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    store = ConsoleSessions(path, KeyRing(None))
    exchange = HttpExchange({"type": "http", "method": "GET", "headers": [(b"host", b"x:1")], "path": "/"}, None, None)  # type: ignore[arg-type]
    link = await store.create_link()
    database = Database(path)
    await database.write(lambda connection: connection.execute("UPDATE console_links SET expires = 1"))
    assert await store.open_with_link(link, exchange) is None
    cookie = await store.open_with_link(await store.create_link(), exchange)
    assert cookie is not None
    exchange.headers[b"cookie"] = f"openskills_console_1={cookie}".encode()
    assert store.find(exchange) is not None
    await database.write(lambda connection: connection.execute("UPDATE console_sessions SET expires = 1"))
    assert store.find(exchange) is None
    assert await store.list() == []
    await database.close()
    await store.close()


def test_the_api_is_served_without_what_renders_pages() -> None:
    code = "import sys, openskills.host.server; print({'jinja2', 'markdown_it'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"


@pytest.mark.parametrize("origin", ["http://[", "http://x:2", "null", ""])
def test_a_change_that_another_page_asks_for_is_refused(origin: str) -> None:
    check_same_origin(Sent(headers={"Host": "x:1", "Origin": "http://x:1"}).exchange)
    with pytest.raises(HttpRefusal) as refused:
        check_same_origin(Sent(headers={"Host": "x:1", "Origin": origin}).exchange)
    assert refused.value.failure.code == 403
