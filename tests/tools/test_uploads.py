"""Files that came with the conversation.

Files in messages.

Files that are no use, in few words.
"""

import base64
from typing import Any

import pytest

from openskills.errors import InvalidArgument
from openskills.tools.uploads import (
    MAX_REASONS,
    FilePart,
    UploadLimits,
    UploadProblems,
    Uploads,
    UserUpload,
    decode_content,
    estimate_min_size,
    parse_file_part,
    upload_from_bytes,
)


def message(*parts: object, role: str = "user", field: str = "content") -> dict[str, Any]:
    """A message with these parts."""
    return {"role": role, field: [{"type": "text", "text": "look"}, *parts]}


def file(name: str, data: bytes | str, **fields: object) -> dict[str, Any]:
    """A part with a file in it."""
    content = base64.b64encode(data).decode() if isinstance(data, bytes) else data
    return {"type": "file", "file": {"filename": name, "file_data": content, **fields}}


class Counted(str):
    """A text that counts how often it is turned into bytes."""

    __slots__ = ("decodings",)

    def __init__(self, _: str) -> None:
        self.decodings = 0

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """Count, and do it."""
        self.decodings += 1
        return super().encode(encoding, errors)


def test_files_are_found_in_the_messages_of_the_user_and_nowhere_else() -> None:
    uploads = Uploads()
    uploads.add_from_messages(
        [
            message(file("system.txt", b"1"), role="system"),
            message(file("a.txt", b"2"), file("b.txt", b"3")),
            message(file("tool.txt", b"4"), role="tool"),
            {"role": "user", "content": "only text"},
            message(file("c.txt", b"5"), field="content_parts"),
        ]
    )
    assert [(one.name, one.data) for one in uploads.all()] == [("a.txt", b"2"), ("b.txt", b"3"), ("c.txt", b"5")]
    assert uploads.describe_problems() == ()


def test_the_same_file_is_one_however_often_and_however_it_is_met() -> None:
    uploads = Uploads()
    uploads.add_from_messages([message(file("A.txt", b"1"), file("a.txt", b"1"))])
    uploads.add_from_messages([message(file("a.txt", "data:text/plain;base64,MQ=="))])
    uploads.add(upload_from_bytes("a.txt", b"1"))
    assert [one.name for one in uploads.all()] == ["A.txt"]


def test_one_name_with_two_contents_is_two_files() -> None:
    uploads = Uploads()
    uploads.add_from_messages([message(file("a.txt", b"1"), file("a.txt", b"2"))])
    assert [one.data for one in uploads.all()] == [b"1", b"2"]


def test_a_content_that_was_met_before_is_not_decoded_again() -> None:
    uploads = Uploads()
    content = Counted(base64.b64encode(b"x" * 1000).decode())
    messages = [message(file("a.txt", content))]
    for _ in range(5):
        uploads.add_from_messages(messages)
    assert content.decodings == 1
    again = Counted(content)
    uploads.add_from_messages([message(file("a.txt", again))])
    assert again.decodings == 0


def test_files_without_content_keep_their_id() -> None:
    uploads = Uploads()
    uploads.add_from_messages([message({"type": "file", "file": {"file_id": "artifact://in/data.csv@2"}})])
    uploads.add_from_messages([message({"type": "input_file", "file_id": "file-7", "filename": "Seven.bin"})])
    assert uploads.all() == (
        UserUpload("file_id/artifact://in/data.csv@2/name/", "", None, "artifact://in/data.csv@2"),
        UserUpload("file_id/file-7/name/seven.bin", "Seven.bin", None, "file-7"),
    )


def test_a_file_that_is_broken_is_a_problem_that_names_it_once() -> None:
    uploads = Uploads()
    for _ in range(3):
        uploads.add_from_messages(
            [message(file("broken.pdf", "no base64 !"), {"type": "file", "file": {"filename": "empty.pdf"}})]
        )
    assert uploads.all() == ()
    assert uploads.describe_problems() == (
        "broken.pdf is unavailable: the content is not valid base64",
        "empty.pdf is unavailable: it has neither content nor an id",
    )


def test_a_broken_content_with_an_id_is_had_by_its_id() -> None:
    uploads = Uploads()
    uploads.add_from_messages([message(file("a.pdf", "no base64 !", file_id="file-1"))])
    assert [(one.data, one.file_id) for one in uploads.all()] == [(None, "file-1")]
    assert uploads.describe_problems() == ()


def test_a_content_that_is_far_too_large_is_not_even_decoded() -> None:
    uploads = Uploads(limits=UploadLimits(file_bytes=1000))
    content = Counted(base64.b64encode(b"x" * 10_000).decode())
    uploads.add_from_messages([message(file("large.bin", content))])
    assert (uploads.all(), content.decodings) == ((), 0)
    assert uploads.describe_problems() == ("large.bin is unavailable: too large, at most 1,000 bytes per file",)


def test_what_is_over_the_limits_is_not_held_and_told_in_one_sentence_for_each_limit() -> None:
    uploads = Uploads(limits=UploadLimits(files=3, file_bytes=100, total_bytes=250))
    for _ in range(2):
        uploads.add_from_messages([message(*(file(f"{number}.bin", bytes([number]) * 100) for number in range(5)))])
    assert [len(one.data or b"") for one in uploads.all()] == [100, 100]
    uploads.add_from_messages([message(file("small.bin", b"x"), file("large.bin", b"x" * 101))])
    uploads.add_from_messages([message(*(file(f"f{number}.txt", b"%d" % number) for number in range(3000)))])
    assert len(uploads.all()) == 3
    assert uploads.describe_problems() == (
        "2.bin, 3.bin, 4.bin are unavailable: all files together are too large, at most 250 bytes",
        "large.bin is unavailable: too large, at most 100 bytes per file",
        "f0.txt, f1.txt, f2.txt and 2,997 more are unavailable: too many files, at most 3",
    )


def test_a_file_over_the_limits_is_refused_once_and_one_that_is_known_is_not_refused() -> None:
    uploads = Uploads(limits=UploadLimits(files=1))
    assert uploads.add(upload_from_bytes("a", b"1"))
    assert not uploads.add(upload_from_bytes("b", b"2"))
    assert not uploads.add(upload_from_bytes("b", b"2"))
    assert uploads.add(upload_from_bytes("a", b"1"))
    assert not uploads.add(UserUpload("file_id/f/name/c", "c", file_id="f"))
    assert uploads.describe_problems() == ("b, c are unavailable: too many files, at most 1",)


def test_names_cannot_draw_on_a_terminal() -> None:
    uploads = Uploads()
    uploads.add_from_messages([message(file("a\x1b[2J\n.txt", "!"))])
    (problem,) = uploads.describe_problems()
    assert problem.isprintable()


def test_what_is_placed_is_remembered_for_one_workspace() -> None:
    uploads, one, other = Uploads(), object(), object()
    assert uploads.get_workspace_uploads(one) is uploads.get_workspace_uploads(one)
    assert uploads.get_workspace_uploads(other) is not uploads.get_workspace_uploads(one)


def test_only_bytes_are_a_file() -> None:
    with pytest.raises(InvalidArgument, match="expected bytes, got str"):
        upload_from_bytes("a", "text")  # pyright: ignore[reportArgumentType] - what is refused


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
    assert parse_file_part(part) == FilePart("a.txt", TEXT)


def test_ids_addresses_and_types_are_found() -> None:
    part = {"type": "file", "file": {"file_id": "file-1", "mime_type": "text/csv", "filename": None}}
    assert parse_file_part(part) == FilePart(file_id="file-1", mime_type="text/csv")
    url = "https://example.org/a.pdf"
    assert parse_file_part({"type": "input_file", "file_url": url}) == FilePart(file_id=url)


@pytest.mark.parametrize("other", ["text", None, {"type": "text", "text": "x"}, {"type": "image_url"}, {}])
def test_what_is_no_file_is_none(other: object) -> None:
    assert parse_file_part(other) is None


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
    assert decode_content(content) == meant


@pytest.mark.parametrize("broken", ["not base64!", "abcde", "é", "data:text/plain;base64,???", "data:,é", "\ud800"])
def test_broken_contents_are_none(broken: str) -> None:
    assert decode_content(broken) is None


@pytest.mark.parametrize("content", [b"x" * 5000, "eHh4" * 5000, "data:,%41" + "%41" * 5000])
def test_a_content_is_never_smaller_than_what_is_said_at_once(content: bytes | str) -> None:
    found = decode_content(content)
    assert found is not None
    assert 0 < estimate_min_size(content) <= len(found[0])


def test_files_with_one_reason_are_one_sentence() -> None:
    problems = UploadProblems()
    assert problems.describe() == ()
    problems.add("a", "it is late")
    assert problems.describe() == ("a is unavailable: it is late",)
    for name in "bcde":
        problems.add(name, "it is late")
    problems.add("f", "it is early")
    assert problems.describe() == (
        "a, b, c and 2 more are unavailable: it is late",
        "f is unavailable: it is early",
    )


def test_of_many_reasons_only_some_are_told_and_the_other_files_are_counted() -> None:
    problems = UploadProblems()
    for number in range(MAX_REASONS + 5):
        problems.add(f"{number}", f"reason {number}")
        problems.add(f"{number}", f"reason {number}")
    sentences = problems.describe()
    assert len(sentences) == MAX_REASONS + 1
    assert sentences[-1] == "10 more files are unavailable"
