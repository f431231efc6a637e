"""A decision holds for what was seen, is kept for the next process, and is never lost to another one."""

import subprocess
import sys
from pathlib import Path

import pytest

from openskills.catalog.trust import Answer, TrustStore
from openskills.errors import InvalidArgument


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "config")


def test_a_decision_is_remembered_for_this_digest_only(store: TrustStore, tmp_path: Path) -> None:
    assert store.decisions() == {}
    store.remember(tmp_path, {"/p/a": "abc", "/p/b": "bcd"}, Answer.YES)
    store.remember(tmp_path, {"/p/b": "cde"}, Answer.NO)
    decisions = TrustStore(tmp_path / "config").decisions()
    assert {place: decisions[place].about("abc") for place in decisions} == {"/p/a": Answer.YES, "/p/b": None}
    assert decisions["/p/b"].about("cde") is Answer.NO
    assert decisions["/p/a"].project == str(tmp_path)


def test_a_decision_can_be_taken_back(store: TrustStore, tmp_path: Path) -> None:
    store.remember(tmp_path, {"/p/a": "abc", "/p/b": "bcd"}, Answer.YES)
    store.forget(["/p/a", "/p/never"])
    assert list(store.decisions()) == ["/p/b"]


def test_nothing_to_remember_or_to_forget_writes_nothing(store: TrustStore, tmp_path: Path) -> None:
    store.remember(tmp_path, {}, Answer.YES)
    store.forget([])
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_no_text_and_names_that_look_alike_are_kept_apart(store: TrustStore, tmp_path: Path) -> None:
    names = ["/p/\udcff", "/p/A", "/p/a", "/p/\N{LATIN SMALL LETTER E WITH ACUTE}", "/p/e\N{COMBINING ACUTE ACCENT}"]
    store.remember(tmp_path, {name: str(number) for number, name in enumerate(names)}, Answer.YES)
    assert {name: decision.digest for name, decision in store.decisions().items()} == {
        name: str(number) for number, name in enumerate(names)
    }


def test_only_the_owner_can_read_the_decisions(store: TrustStore, tmp_path: Path) -> None:
    store.remember(tmp_path, {"/p/a": "abc"}, Answer.YES)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "config").iterdir()}
    assert modes == {"trust.json": 0o600, "trust.lock": 0o600}
    assert (tmp_path / "config").stat().st_mode & 0o777 == 0o700


def test_processes_that_decide_at_the_same_time_lose_no_decision(store: TrustStore, tmp_path: Path) -> None:
    code = (
        "import pathlib, sys\n"
        "from openskills.catalog.trust import Answer, TrustStore\n"
        "store = TrustStore(pathlib.Path(sys.argv[1]))\n"
        "print(flush=True)\n"
        "sys.stdin.read()\n"
        "for number in range(20):\n"
        "    store.remember(pathlib.Path('/p'), {f'/p/{sys.argv[2]}/{number}': 'abc'}, Answer.YES)\n"
        "store.forget([f'/p/{sys.argv[2]}/0'])\n"
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "config"), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(4)
    ]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.readline()
    # All of them are ready; the end of their input is the start.
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.close()
    expected = {f"/p/{writer}/{number}" for writer in range(4) for number in range(1, 20)}
    assert store.decisions().keys() == expected


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"places": 3}',
        '{"places": {"/a": {"answer": "yes"}}}',
        '{"places": {"/a": {"project": "/", "digest": "a", "at": "", "answer": "perhaps"}}}',
    ],
)
def test_a_broken_file_is_an_error_that_names_it_rather_than_a_forgotten_decision(tmp_path: Path, content: str) -> None:
    (tmp_path / "trust.json").write_text(content)
    store = TrustStore(tmp_path)
    for attempt in (store.decisions, lambda: store.remember(tmp_path, {"/p": "abc"}, Answer.YES)):
        with pytest.raises(InvalidArgument, match=r"trust\.json.*mend or remove"):
            attempt()
    assert (tmp_path / "trust.json").read_text() == content
