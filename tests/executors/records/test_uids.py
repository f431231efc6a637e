"""Each workspace has a user of its own, as long as it exists."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.executors.directory import SANDBOX_UIDS
from openskills.executors.records.uids import UidPool
from openskills.settings import Settings

FIRST = 70_000
RESERVED = {
    "users of the system and the first people of a machine": range(20_000),
    "what Debian gives to packages, systemd to homes": range(60_000, 61_184),
    "what systemd gives to services that have no user of their own (DynamicUser)": range(61_184, 65_520),
    "what a container without rights of its own does not have": range(65_520, 2**32),
}
"""Numbers that others give away without asking who runs as them."""


def pool(directory: Path, count: int, owners: set[str]) -> UidPool:
    return UidPool(directory, FIRST, FIRST + count - 1, owners.__contains__)


@pytest.mark.parametrize("whose", RESERVED)
def test_by_default_no_number_is_taken_that_others_give_away(whose: str) -> None:
    first, last = SANDBOX_UIDS
    assert range(max(first, RESERVED[whose].start), min(last + 1, RESERVED[whose].stop)) == range(0)
    assert Settings.from_env({"HOME": "/home/x"}).sandbox_uids == SANDBOX_UIDS


def test_no_two_owners_have_the_same_user(tmp_path: Path) -> None:
    uids = pool(tmp_path / "uids", 20, set())
    held = [uids.claim(f"owner-{number}") for number in range(20)]
    assert {one.uid for one in held} == set(range(FIRST, FIRST + 20))
    with pytest.raises(ExecutorUnavailable, match="all user ids from 70000 to 70019 are taken; remove workspaces"):
        uids.claim("one-more")
    held[3].release()
    held[3].release()
    assert uids.claim("one-more").uid == held[3].uid
    for one in held:
        one.release()


def test_an_owner_that_exists_keeps_its_user_while_it_is_not_in_use(tmp_path: Path) -> None:
    owners = {"sleeping"}
    uids = pool(tmp_path, 2, owners)
    asleep = uids.claim("sleeping")
    asleep.release()
    other = uids.claim("other")
    assert other.uid != asleep.uid
    with pytest.raises(ExecutorUnavailable):
        uids.claim("third")
    again = uids.claim("sleeping", preferred=asleep.uid)
    assert again.uid == asleep.uid
    again.release()
    owners.clear()
    third = uids.claim("third")
    assert third.uid == asleep.uid
    other.release()
    third.release()


def test_a_preferred_user_that_somebody_has_is_said(tmp_path: Path) -> None:
    uids = pool(tmp_path, 2, set())
    held = uids.claim("one")
    with pytest.raises(ExecutorUnavailable, match=f"user id {held.uid} of this workspace is in use"):
        uids.claim("other", preferred=held.uid)
    held.release()


def test_users_of_the_machine_are_never_given_away(tmp_path: Path) -> None:
    known = sorted(entry.pw_uid for entry in pwd.getpwall())[0]
    with pytest.raises(ExecutorUnavailable):
        UidPool(tmp_path, known, known, lambda _: False).claim("one")
    with pytest.raises(ExecutorUnavailable, match="belongs to somebody on this machine now; remove it"):
        pool(tmp_path, 1, set()).claim("one", preferred=known)


def test_a_process_that_dies_gives_its_user_back(tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from openskills.executors.records.uids import UidPool
held = UidPool(Path({str(tmp_path)!r}), {FIRST}, {FIRST}, lambda _: False).claim("child")
print("held", flush=True)
input()
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        assert child.stdout.readline() == "held\n"
        uids = pool(tmp_path, 1, set())
        with pytest.raises(ExecutorUnavailable):
            uids.claim("one")
        child.kill()
        child.wait()
        held = uids.claim("one")
    assert held.uid == FIRST
    held.release()


def test_the_files_are_for_us_only(tmp_path: Path) -> None:
    uids = pool(tmp_path / "uids", 1, set())
    uids.claim("one").release()
    assert os.stat(tmp_path / "uids").st_mode & 0o777 == 0o700
    assert os.stat(tmp_path / "uids" / str(FIRST)).st_mode & 0o777 == 0o600
