"""Finding lines in files of every kind."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.skillkit.swapping import swapping
from tests.skills_cli.calling import DATA, Reply, call


def search(root: Path, query: str, **more: Any) -> Reply:
    return call("file_search", {"query": query, **more}, root=root)


def found(root: Path, query: str, **more: Any) -> list[tuple[str, int, str]]:
    matches = search(root, query, **more).data["matches"]
    return [(match["path"], match["line_no"], match["snippet"]) for match in matches]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """An empty allowed directory."""
    root = tmp_path / "data"
    root.mkdir()
    return root


def write(root: Path, name: str, content: str | bytes) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_lines_are_found_with_path_number_and_snippet(data: Path) -> None:
    write(data, "docs/b.md", "one\n  two Needle here  \nthree\n")
    write(data, "a.txt", "needle\r\nx\r\nNEEDLE needle")
    assert found(data, "needle") == [
        ("data/a.txt", 1, "needle"),
        ("data/a.txt", 3, "NEEDLE needle"),
        ("data/docs/b.md", 2, "two Needle here"),
    ]


@pytest.mark.parametrize("root_dir", ["docs", "./docs", "docs/", "data/docs", "./data/docs", "./data/./docs//"])
def test_a_folder_may_be_named_from_within_or_from_where_data_lies(data: Path, root_dir: str) -> None:
    write(data, "docs/b.md", "needle")
    write(data, "other/b.md", "needle")
    assert found(data, "needle", root_dir=root_dir) == [("data/docs/b.md", 1, "needle")]


@pytest.mark.parametrize("root_dir", ["", ".", "./", "data", "./data", "./data/", None])
def test_the_allowed_folder_itself_has_many_names(data: Path, root_dir: str | None) -> None:
    write(data, "docs/b.md", "needle")
    assert len(found(data, "needle", root_dir=root_dir)) == 1


def test_a_path_that_was_found_can_be_given_back(data: Path) -> None:
    write(data, "data/data/b.md", "needle")
    ((path, _, _),) = found(data, "needle")
    assert path == "data/data/data/b.md"
    assert found(data, "needle", root_dir=str(Path(path).parent)) == [(path, 1, "needle")]


@pytest.mark.parametrize(
    ("glob", "wanted"),
    [
        ("**/*.md", ["a.md", "docs/b.md", "docs/deep/er/c.md"]),
        ("*.md", ["a.md", "docs/b.md", "docs/deep/er/c.md"]),
        ("docs/*.md", ["docs/b.md"]),
        ("docs/**", ["docs/b.md", "docs/deep/er/c.md", "docs/notes.txt"]),
        ("**/er/*", ["docs/deep/er/c.md"]),
        ("*.{md,txt}", ["a.md", "docs/b.md", "docs/deep/er/c.md", "docs/notes.txt"]),
        ("[ab].md", ["a.md", "docs/b.md"]),
        ("./docs/?.md", ["docs/b.md"]),
        ("*.py", []),
    ],
)
def test_a_glob_chooses_files(data: Path, glob: str, wanted: list[str]) -> None:
    for name in ("a.md", "docs/b.md", "docs/deep/er/c.md", "docs/notes.txt"):
        write(data, name, "needle")
    assert [path for path, _, _ in found(data, "needle", glob=glob)] == [f"data/{name}" for name in wanted]


def test_twenty_matches_come_back_unless_more_are_asked_for(data: Path) -> None:
    write(data, "a.txt", "needle\n" * 25)
    reply = search(data, "needle")
    assert len(reply.data["matches"]) == 20
    assert reply.meta["truncated"] is True
    assert len(found(data, "needle", limit=25)) == 25
    assert "truncated" not in search(data, "needle", limit=25).meta


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "gb18030", "gbk"]
)
def test_chinese_text_is_found_in_every_encoding(data: Path, encoding: str) -> None:
    text = "plain ascii words come first in this file\n价格单位：元/吨。均值与中位数\n第三行\n"
    write(data, "a.txt", text.encode(encoding))
    assert found(data, "中位数") == [("data/a.txt", 2, "价格单位：元/吨。均值与中位数")]


def test_western_text_that_is_not_utf8_is_not_chinese(data: Path) -> None:
    write(data, "a.txt", "un café très élégant, déjà vu\n".encode("cp1252"))
    assert found(data, "CAFÉ") == [("data/a.txt", 1, "un café très élégant, déjà vu")]


def test_bytes_that_are_broken_later_do_not_hide_the_rest(data: Path) -> None:
    write(data, "a.txt", b"x\n" * 40_000 + b"\xff\xfe broken\nneedle\n")
    assert found(data, "needle") == [("data/a.txt", 40_002, "needle")]


def test_binary_files_are_skipped_and_counted(data: Path) -> None:
    write(data, "a.png", b"\x89PNG\r\n\x1a\n needle")
    write(data, "b.bin", b"needle \0\1\2\3" * 100)
    write(data, "c.gz", b"\x1f\x8b needle")
    write(data, "d.txt", "needle")
    reply = search(data, "needle")
    assert [match["path"] for match in reply.data["matches"]] == ["data/d.txt"]
    assert (reply.meta["files_binary"], reply.meta["files_searched"]) == (3, 1)


def test_of_a_large_file_five_megabytes_are_searched_and_the_cut_is_said(data: Path) -> None:
    write(
        data,
        "a.txt",
        b"x" * 99 + b"\n" + b"y" * (5 * 1024 * 1024 - 200) + b"\nneedle 1\n" + b"z\n" * 100 + b"needle 2\n",
    )
    reply = search(data, "needle")
    assert [match["line_no"] for match in reply.data["matches"]] == [3]
    assert (reply.meta["files_cut"], reply.meta["truncated"]) == (1, True)


def test_a_long_line_is_shown_around_the_match(data: Path) -> None:
    write(data, "a.txt", "a" * 300_000 + "needle" + "b" * 300_000)
    ((_, number, snippet),) = found(data, "needle")
    assert (number, len(snippet)) == (1, 202)
    assert snippet.startswith("…a")
    assert "needle" in snippet
    assert snippet.endswith("b…")


def test_matches_across_blocks_of_reading_are_found_on_the_right_line(data: Path) -> None:
    lines = [f"{number:06} {'x' * (number % 97)}" for number in range(20_000)]
    write(data, "a.txt", "\r\n".join(lines))
    for number in (0, 1_200, 9_999, 19_999):
        assert found(data, f"{number:06} ") == [("data/a.txt", number + 1, lines[number].strip())]


def test_hidden_files_and_links_are_not_searched(data: Path, tmp_path: Path) -> None:
    write(tmp_path, "secret.txt", "needle")
    write(data, ".hidden", "needle")
    write(data, ".git/config", "needle")
    (data / "link.txt").symlink_to(tmp_path / "secret.txt")
    (data / "folder").symlink_to(tmp_path)
    (data / "loop").symlink_to(data)
    reply = search(data, "needle")
    assert reply.data["matches"] == []
    assert reply.meta["files_skipped"] == 3


def test_a_fifo_a_socket_and_a_file_that_may_not_be_read_hold_nothing_up(data: Path) -> None:
    os.mkfifo(data / "fifo")
    write(data, "z.txt", "needle")
    reply = search(data, "needle")
    assert len(reply.data["matches"]) == 1
    assert reply.meta["files_skipped"] == 1


@pytest.mark.parametrize(
    ("root_dir", "word"),
    [
        ("/etc", "FORBIDDEN_PATH"),
        ("../", "FORBIDDEN_PATH"),
        ("./data/../..", "FORBIDDEN_PATH"),
        ("docs/../../x", "FORBIDDEN_PATH"),
        ("out", "FORBIDDEN_PATH"),
        ("absolute", "FORBIDDEN_PATH"),
        ("circle", "FORBIDDEN_PATH"),
        ("nowhere", "INVALID_ARGUMENT"),
        ("a.txt", "INVALID_ARGUMENT"),
        ("a\0b", "INVALID_ARGUMENT"),
        ("x" * 5000, "INVALID_ARGUMENT"),
        ("~", "INVALID_ARGUMENT"),
        ("..\\..", "INVALID_ARGUMENT"),
    ],
)
def test_a_folder_elsewhere_is_refused(data: Path, tmp_path: Path, root_dir: str, word: str) -> None:
    write(data, "a.txt", "needle")
    write(tmp_path, "elsewhere/b.txt", "needle")
    (data / "out").symlink_to("../elsewhere")
    (data / "absolute").symlink_to(tmp_path / "elsewhere")
    (data / "circle").symlink_to("circle")
    said, message = search(data, "needle", root_dir=root_dir).refusal
    assert (said, message.partition(":")[0]) == (word, "root_dir")


def test_a_link_that_stays_inside_may_be_named(data: Path) -> None:
    write(data, "docs/b.md", "needle")
    (data / "papers").symlink_to("docs")
    assert found(data, "needle", root_dir="papers") == [("data/papers/b.md", 1, "needle")]


@pytest.mark.parametrize(
    ("fields", "word", "said"),
    [
        ({"query": ""}, "INVALID_ARGUMENT", "query: must not be empty"),
        ({"query": " \t"}, "INVALID_ARGUMENT", "query: must not be empty"),
        ({"query": "a\nb"}, "INVALID_ARGUMENT", "query: expected one line"),
        ({"query": "x" * 1001}, "INVALID_ARGUMENT", "query: expected one line of at most 1000"),
        ({"query": 5}, "INVALID_ARGUMENT", "query: expected text, not a whole number (5)"),
        ({"query": "x", "limit": 0}, "INVALID_ARGUMENT", "limit: 0 is not between 1 and 1000"),
        ({"query": "x", "limit": -1}, "INVALID_ARGUMENT", "limit: -1 is not"),
        ({"query": "x", "limit": 1001}, "INVALID_ARGUMENT", "limit: 1001 is not"),
        ({"query": "x", "limit": 2.5}, "INVALID_ARGUMENT", "limit: expected a whole number or null"),
        ({"query": "x", "limit": "5"}, "INVALID_ARGUMENT", "limit: expected a whole number or null, not text"),
        ({"query": "x", "limit": True}, "INVALID_ARGUMENT", "limit: expected a whole number or null, not true"),
        ({"query": "x", "glob": "../*"}, "FORBIDDEN_PATH", "glob: '../*' must not contain"),
        ({"query": "x", "glob": "/etc/*"}, "FORBIDDEN_PATH", "glob: '/etc/*' is absolute"),
        ({"query": "x", "glob": "{a,b}" * 20}, "INVALID_ARGUMENT", "glob: has more than 64 alternatives"),
        ({"query": "x", "globs": "*"}, "INVALID_ARGUMENT", "globs: unknown field; did you mean 'glob'?"),
        ({"root_dir": "docs"}, "INVALID_ARGUMENT", "query: required"),
    ],
)
def test_what_is_wrong_is_named(data: Path, fields: dict[str, Any], word: str, said: str) -> None:
    assert call("file_search", fields, root=data).refusal[0] == word
    assert call("file_search", fields, root=data).refusal[1].startswith(said)


def test_a_limit_with_a_point_is_a_whole_number(data: Path) -> None:
    write(data, "a.txt", "needle\nneedle\n")
    assert len(found(data, "needle", limit=1.0)) == 1


def test_without_the_allowed_directory_nothing_can_be_done(tmp_path: Path) -> None:
    word, message = search(tmp_path / "gone", "x").refusal
    assert (word, message) == (
        "INTERNAL",
        "directory 'gone' does not exist; create it, or set OPENSKILL_ALLOWED_ROOT to another",
    )


def test_a_search_that_runs_out_of_time_gives_what_it_has(data: Path) -> None:
    for number in range(50):
        write(data, f"{number:02}.txt", "needle")
    reply = call("file_search", {"query": "needle", "limit": 100}, root=data, OPENSKILL_TIMEOUT_MS="1")
    assert (reply.meta["stopped"], reply.meta["truncated"]) == ("out of time", True)
    assert len(reply.data["matches"]) < 50


def test_a_folder_that_is_swapped_for_a_link_while_searching_leads_nowhere(data: Path, tmp_path: Path) -> None:
    write(tmp_path, "outside/b.txt", "needle SECRET")
    write(data, "docs/b.txt", "needle")
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    with swapping(data / "docs", tmp_path / "link"):
        replies = [search(data, "needle", **({"root_dir": "docs"} if n % 2 else {})) for n in range(12)]
    assert not any("SECRET" in str(reply.result) for reply in replies)
    refused = {reply.refusal[0] for reply in replies if not reply.result["success"]}
    assert refused <= {"FORBIDDEN_PATH"}


def test_the_sample_data_is_found_in_both_languages() -> None:
    assert [path for path, _, _ in found(DATA, "UTF-16")] == ["data/docs/release-notes.txt"]
    assert "data/docs/旧版说明.txt" in [path for path, _, _ in found(DATA, "元/吨")]
    assert found(DATA, "中位数", root_dir="./data/docs", glob="**/*.md")[0][0] == "data/docs/使用指南.md"
