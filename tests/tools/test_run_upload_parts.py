"""Files in messages."""

import base64

import pytest

from openskills.tools.run_upload_parts import FilePart, decoded, file_part, size_at_least

TEXT = base64.b64encode(b"hello?>").decode()


@pytest.mark.parametrize(
    "part",
    [
        {"type": "file", "file": {"filename": "a.txt", "file_data": TEXT}},
        {"type": "file", "file": {"name": "a.txt", "data": TEXT}},
        {"type": "input_file", "filename": "a.txt", "file_data": TEXT},
        {"type": "file", "base64": TEXT, "name": "a.txt"},
    ],
)
def test_a_file_is_found_in_every_format(part: object) -> None:
    assert file_part(part) == FilePart("a.txt", TEXT)


def test_ids_addresses_and_types_are_found() -> None:
    part = {"type": "file", "file": {"file_id": "file-1", "mime_type": "text/csv", "filename": None}}
    assert file_part(part) == FilePart(file_id="file-1", mime_type="text/csv")
    url = "https://example.org/a.pdf"
    assert file_part({"type": "input_file", "file_url": url}) == FilePart(file_id=url)


@pytest.mark.parametrize("other", ["text", None, {"type": "text", "text": "x"}, {"type": "image_url"}, {}])
def test_what_is_no_file_is_none(other: object) -> None:
    assert file_part(other) is None


@pytest.mark.parametrize(
    ("content", "meant"),
    [
        (b"raw", (b"raw", "")),
        (TEXT, (b"hello?>", "")),
        (f"data:text/plain;base64,{TEXT}", (b"hello?>", "text/plain")),
        (f"DATA:text/plain;charset=utf-8;BASE64,{TEXT}", (b"hello?>", "text/plain")),
        ("data:text/plain,a%20b", (b"a b", "text/plain")),
        ("data:;base64,", (b"", "")),
        (f"{TEXT[:4]}\r\n{TEXT[4:]}\n", (b"hello?>", "")),
        (TEXT.rstrip("="), (b"hello?>", "")),
        (base64.urlsafe_b64encode(b"\xff\xfe\xfd??>").decode(), (b"\xff\xfe\xfd??>", "")),
    ],
)
def test_contents_are_decoded_however_they_are_written(content: bytes | str, meant: tuple[bytes, str]) -> None:
    assert decoded(content) == meant


@pytest.mark.parametrize("broken", ["not base64!", "abcde", "é", "data:text/plain;base64,???", "data:,é", "\ud800"])
def test_broken_contents_are_none(broken: str) -> None:
    assert decoded(broken) is None


@pytest.mark.parametrize("content", [b"x" * 5000, "eHh4" * 5000, "data:,%41" + "%41" * 5000])
def test_a_content_is_never_smaller_than_what_is_said_at_once(content: bytes | str) -> None:
    found = decoded(content)
    assert found is not None
    assert 0 < size_at_least(content) <= len(found[0])
