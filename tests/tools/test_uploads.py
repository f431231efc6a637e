"""Files that came with the conversation."""

import base64
from typing import Any

import pytest

from openskills.errors import InvalidArgument
from openskills.tools.uploads import Upload, UploadLimits, Uploads, upload_of


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
    uploads.note(
        [
            message(file("system.txt", b"1"), role="system"),
            message(file("a.txt", b"2"), file("b.txt", b"3")),
            message(file("tool.txt", b"4"), role="tool"),
            {"role": "user", "content": "only text"},
            message(file("c.txt", b"5"), field="content_parts"),
        ]
    )
    assert [(one.name, one.data) for one in uploads.all()] == [("a.txt", b"2"), ("b.txt", b"3"), ("c.txt", b"5")]
    assert uploads.problems() == ()


def test_the_same_file_is_one_however_often_and_however_it_is_met() -> None:
    uploads = Uploads()
    uploads.note([message(file("A.txt", b"1"), file("a.txt", b"1"))])
    uploads.note([message(file("a.txt", "data:text/plain;base64,MQ=="))])
    uploads.add(upload_of("a.txt", b"1"))
    assert [one.name for one in uploads.all()] == ["A.txt"]


def test_one_name_with_two_contents_is_two_files() -> None:
    uploads = Uploads()
    uploads.note([message(file("a.txt", b"1"), file("a.txt", b"2"))])
    assert [one.data for one in uploads.all()] == [b"1", b"2"]


def test_a_content_that_was_met_before_is_not_decoded_again() -> None:
    uploads = Uploads()
    content = Counted(base64.b64encode(b"x" * 1000).decode())
    messages = [message(file("a.txt", content))]
    for _ in range(5):
        uploads.note(messages)
    assert content.decodings == 1
    again = Counted(content)
    uploads.note([message(file("a.txt", again))])
    assert again.decodings == 0


def test_files_without_content_keep_their_id() -> None:
    uploads = Uploads()
    uploads.note([message({"type": "file", "file": {"file_id": "artifact://in/data.csv@2"}})])
    uploads.note([message({"type": "input_file", "file_id": "file-7", "filename": "Seven.bin"})])
    assert uploads.all() == (
        Upload("file_id/artifact://in/data.csv@2/name/", "", None, "artifact://in/data.csv@2"),
        Upload("file_id/file-7/name/seven.bin", "Seven.bin", None, "file-7"),
    )


def test_a_file_that_is_broken_is_a_problem_that_names_it_once() -> None:
    uploads = Uploads()
    for _ in range(3):
        uploads.note([message(file("broken.pdf", "no base64 !"), {"type": "file", "file": {"filename": "empty.pdf"}})])
    assert uploads.all() == ()
    assert uploads.problems() == (
        "broken.pdf of the conversation is not there: the content is no base64",
        "empty.pdf of the conversation is not there: there is neither content nor an id",
    )


def test_a_broken_content_with_an_id_is_had_by_its_id() -> None:
    uploads = Uploads()
    uploads.note([message(file("a.pdf", "no base64 !", file_id="file-1"))])
    assert [(one.data, one.file_id) for one in uploads.all()] == [(None, "file-1")]
    assert uploads.problems() == ()


def test_a_content_that_is_far_too_large_is_not_even_decoded() -> None:
    uploads = Uploads(limits=UploadLimits(file_bytes=1000))
    content = Counted(base64.b64encode(b"x" * 10_000).decode())
    uploads.note([message(file("large.bin", content))])
    assert (uploads.all(), content.decodings) == ((), 0)
    assert uploads.problems() == ("large.bin of the conversation is not there: 1,000 bytes are the most for one file",)


def test_what_is_over_the_limits_is_not_held_and_told_in_one_sentence_for_each_limit() -> None:
    uploads = Uploads(limits=UploadLimits(files=3, file_bytes=100, total_bytes=250))
    for _ in range(2):
        uploads.note([message(*(file(f"{number}.bin", bytes([number]) * 100) for number in range(5)))])
    assert [len(one.data or b"") for one in uploads.all()] == [100, 100]
    uploads.note([message(file("small.bin", b"x"), file("large.bin", b"x" * 101))])
    uploads.note([message(*(file(f"f{number}.txt", b"%d" % number) for number in range(3000)))])
    assert len(uploads.all()) == 3
    assert uploads.problems() == (
        "2.bin, 3.bin, 4.bin of the conversation are not there: 250 bytes are the most for all files together",
        "large.bin of the conversation is not there: 100 bytes are the most for one file",
        "f0.txt, f1.txt, f2.txt and 2,997 more of the conversation are not there: 3 files are the most",
    )


def test_a_file_over_the_limits_is_refused_once_and_one_that_is_known_is_not_refused() -> None:
    uploads = Uploads(limits=UploadLimits(files=1))
    assert uploads.add(upload_of("a", b"1"))
    assert not uploads.add(upload_of("b", b"2"))
    assert not uploads.add(upload_of("b", b"2"))
    assert uploads.add(upload_of("a", b"1"))
    assert not uploads.add(Upload("file_id/f/name/c", "c", file_id="f"))
    assert uploads.problems() == ("b, c of the conversation are not there: 1 files are the most",)


def test_names_cannot_draw_on_a_terminal() -> None:
    uploads = Uploads()
    uploads.note([message(file("a\x1b[2J\n.txt", "!"))])
    (problem,) = uploads.problems()
    assert problem.isprintable()


def test_what_is_placed_is_remembered_for_one_workspace() -> None:
    uploads, one, other = Uploads(), object(), object()
    assert uploads.placed(one) is uploads.placed(one)
    assert uploads.placed(other) is not uploads.placed(one)


def test_only_bytes_are_a_file() -> None:
    with pytest.raises(InvalidArgument, match="give bytes"):
        upload_of("a", "text")  # pyright: ignore[reportArgumentType] - what is refused
