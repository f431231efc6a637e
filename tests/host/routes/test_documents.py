"""The host explained, to programs and to people."""

import re
from pathlib import Path

from tests.host.hosting import served


def test_the_document_names_the_address_that_it_was_asked_at(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        found = host.client.get("/openapi.json")
        assert found.headers["content-type"] == "application/json"
        assert found.json()["servers"] == [{"url": host.url}]
        assert "/skills/echo:invoke" in found.json()["paths"]


def test_the_page_loads_nothing_from_anywhere_else_and_writes_no_foreign_markup(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        page = host.client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", page.text)
    assert "innerHTML" not in page.text
