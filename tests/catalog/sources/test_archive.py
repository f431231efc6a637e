"""Archives are unpacked whole and safe, or not at all and with the reason."""

import gzip
import io
import os
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from openskills.catalog import Catalog
from openskills.catalog.publish import build_archive, read_files
from openskills.catalog.sources.archive import DEFAULT_LIMITS, UnpackLimits, detect_format, pack_folder, unpack
from openskills.errors import (
    ForbiddenPath,
    InvalidArgument,
    InvalidSkill,
    LimitExceeded,
    SkillError,
    SourceUnavailable,
    UnsupportedMedia,
)
from tests.catalog.sources.archive_bytes import (
    SKILL,
    Entry,
    add_file,
    deflated,
    member,
    raw_zip,
    tar_header,
    tar_of,
    tar_with,
    zip_of,
)

FILES = {"hello/SKILL.md": SKILL, "hello/scripts/run.sh": b"#!/bin/sh\n", "hello/assets/logo.png": bytes(range(256))}
Make = Callable[[dict[str, bytes]], bytes]
SMALL = UnpackLimits(total=100_000, per_entry=50_000, entries=5)


def unpacked(data: bytes, tmp_path: Path, limits: UnpackLimits = DEFAULT_LIMITS) -> dict[str, bytes]:
    archive = tmp_path / "skills.bin"
    archive.write_bytes(data)
    into = tmp_path / "cache" / "out"
    unpack(archive, into, limits=limits)
    return {str(path.relative_to(into)): path.read_bytes() for path in into.rglob("*") if path.is_file()}


def plain_tar(files: dict[str, bytes]) -> bytes:
    return tar_of(files, "w:")


def tar_xz(files: dict[str, bytes]) -> bytes:
    return tar_of(files, "w:xz")


def refusal(data: bytes, tmp_path: Path, kind: type[SkillError], limits: UnpackLimits = DEFAULT_LIMITS) -> str:
    """The message of the refusal; checks that nothing was left and nothing escaped."""
    with pytest.raises(kind) as caught:
        unpacked(data, tmp_path, limits)
    assert type(caught.value) is kind
    assert [path.name for path in (tmp_path / "cache").iterdir()] == []
    assert {path.name for path in tmp_path.iterdir()} == {"cache", "skills.bin"}
    assert str(caught.value).startswith("skills.bin: ")
    return str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: zip_of(FILES),
        lambda: tar_of(FILES, "w:"),
        lambda: tar_of(FILES, "w:gz"),
        lambda: tar_of(FILES, "w:bz2"),
        lambda: tar_of(FILES, "w:xz"),
        lambda: tar_of(FILES, "w:gz", tarfile.GNU_FORMAT),
        lambda: tar_of(FILES, "w:", tarfile.USTAR_FORMAT),
    ],
    ids=["zip", "tar", "tar.gz", "tar.bz2", "tar.xz", "gnu", "ustar"],
)
def test_every_format_is_recognised_by_content_and_unpacked(make: Callable[[], bytes], tmp_path: Path) -> None:
    assert unpacked(make(), tmp_path) == FILES


@pytest.mark.parametrize("variant", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_and_chinese_names_in_a_tar_survive(variant: int, tmp_path: Path) -> None:
    files = {f"{'深' * 20}/{'x' * 120}/技能.md": b"1", "a" * 180: b"2"}
    assert unpacked(tar_of(files, variant=variant), tmp_path) == files


def test_a_long_name_in_the_prefix_field_survives(tmp_path: Path) -> None:
    files = {f"{'p' * 90}/{'n' * 90}": b"1"}
    assert unpacked(tar_of(files, variant=tarfile.USTAR_FORMAT), tmp_path) == files


def test_the_executable_bit_is_kept_and_every_other_bit_is_dropped(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, mode in [("plain", 0o666), ("script", 0o700), ("setuid", 0o6755), ("sticky", 0o1777), ("none", 0)]:
            add_file(archive, name, b"x", mode)
    unpacked(buffer.getvalue(), tmp_path)
    modes = {path.name: path.stat().st_mode & 0o7777 for path in (tmp_path / "cache/out").iterdir()}
    assert modes == {"plain": 0o644, "script": 0o755, "setuid": 0o755, "sticky": 0o755, "none": 0o644}


def test_the_executable_bit_in_a_zip_is_kept_without_setuid(tmp_path: Path) -> None:
    unpacked(raw_zip([Entry("run", b"x", mode=0o104755), Entry("doc", b"x", mode=0)]), tmp_path)
    out = tmp_path / "cache/out"
    assert [(out / name).stat().st_mode & 0o7777 for name in ("run", "doc")] == [0o755, 0o644]


def test_the_result_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    unpacked(zip_of(FILES), tmp_path)
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "cache/out").stat().st_mode & 0o777 == 0o700


def test_what_macos_adds_is_left_out(tmp_path: Path) -> None:
    litter = {"__MACOSX/": b"", "__MACOSX/hello/._SKILL.md": b"x", ".DS_Store": b"x", "hello/.DS_Store": b"x"}
    assert unpacked(zip_of({**FILES, **litter}), tmp_path) == FILES
    assert {path.name for path in (tmp_path / "cache/out").iterdir()} == {"hello"}


def test_the_global_header_that_git_archive_writes_is_skipped(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    headers = {"comment": "0" * 40}
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT, pax_headers=headers) as archive:
        add_file(archive, "a.md", b"1")
    assert unpacked(buffer.getvalue(), tmp_path) == {"a.md": b"1"}


def test_a_tar_that_begins_with_the_current_directory_is_unpacked(tmp_path: Path) -> None:
    infos = [member("./", tarfile.DIRTYPE), tarfile.TarInfo("./a.md"), member("./empty", tarfile.DIRTYPE)]
    assert unpacked(tar_with(*infos), tmp_path) == {"a.md": b""}
    assert (tmp_path / "cache/out/empty").is_dir()


@pytest.mark.parametrize("make", [zip_of, tar_of])
@pytest.mark.parametrize(
    "name",
    ["../x", "a/../../x", "a/..", "/etc/x", "//x", "..\\..\\x", "C:\\x", "C:x", "\\\\host\\share\\x", "a\\b.md"],
)
def test_names_that_could_leave_are_refused(name: str, make: Make, tmp_path: Path) -> None:
    assert repr(name) in refusal(make({name: b"x"}), tmp_path, ForbiddenPath)


@pytest.mark.parametrize("name", ["..", "../x", "/x"])
def test_directories_that_could_leave_are_refused(name: str, tmp_path: Path) -> None:
    assert f"'{name}/'" in refusal(tar_with(member(name, tarfile.DIRTYPE)), tmp_path, ForbiddenPath)


def test_litter_that_climbs_is_refused_too(tmp_path: Path) -> None:
    assert "__MACOSX" in refusal(zip_of({"__MACOSX/../../x": b"x"}), tmp_path, ForbiddenPath)


def test_a_name_with_a_nul_byte_is_refused(tmp_path: Path) -> None:
    assert "'a\\x00b' contains a NUL byte" in refusal(raw_zip([Entry("a\0b", b"x")]), tmp_path, InvalidArgument)
    pax = b"15 path=a\0b.md\n"
    extended = tar_header(b"pax", f"{len(pax):011o}\0".encode(), b"x") + pax.ljust(512, b"\0")
    assert "NUL" in refusal(extended + tar_header() + bytes(1024), tmp_path, InvalidArgument)


@pytest.mark.parametrize("name", ["a" * 300, "a/" * 40 + "x", "a" * 5000, ("b" * 200 + "/") * 8 + "x", ""])
def test_names_that_are_too_long_deep_or_empty_are_refused(name: str, tmp_path: Path) -> None:
    refusal(tar_of({name: b"x"}), tmp_path, InvalidArgument)


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (tarfile.SYMTYPE, "symbolic link"),
        (tarfile.LNKTYPE, "hard link"),
        (tarfile.CHRTYPE, "device"),
        (tarfile.BLKTYPE, "device"),
        (tarfile.FIFOTYPE, "named pipe"),
        (tarfile.GNUTYPE_SPARSE, "sparse file"),
        (b"V", "entry of an unknown kind"),
    ],
)
def test_links_and_devices_in_a_tar_are_refused_with_their_name(kind: bytes, word: str, tmp_path: Path) -> None:
    data = tar_header(b"hello/odd", kind=kind) + bytes(1024)
    assert f"'hello/odd' is a {word}" in refusal(data, tmp_path, ForbiddenPath)


@pytest.mark.parametrize(
    ("mode", "word"),
    [(0o120777, "symbolic link"), (0o010644, "named pipe"), (0o020644, "device"), (0o060644, "device")],
)
def test_links_and_devices_in_a_zip_are_refused_with_their_name(mode: int, word: str, tmp_path: Path) -> None:
    message = refusal(raw_zip([Entry("odd", b"/etc/passwd", mode=mode)]), tmp_path, ForbiddenPath)
    assert f"'odd' is a {word}" in message


def test_a_file_written_through_a_link_of_the_same_archive_never_happens(tmp_path: Path) -> None:
    data = tar_with(member("a", tarfile.SYMTYPE, str(tmp_path)), tarfile.TarInfo("a/planted"))
    assert "'a' is a symbolic link" in refusal(data, tmp_path, ForbiddenPath)


@pytest.mark.parametrize("flags", [0x1, 0x41, 0x2001])
def test_an_encrypted_entry_is_refused(flags: int, tmp_path: Path) -> None:
    assert "'s' is encrypted" in refusal(raw_zip([Entry("s", b"x", flags=flags)]), tmp_path, UnsupportedMedia)


@pytest.mark.parametrize("method", [1, 9, 12, 14, 99])
def test_a_rare_compression_is_refused(method: int, tmp_path: Path) -> None:
    message = refusal(raw_zip([Entry("s", b"x", method=method)]), tmp_path, UnsupportedMedia)
    assert f"compression method {method}" in message


class Pipe(io.RawIOBase):
    """A stream without positions: a zip that is written to it has the sizes of entries after their contents."""

    def __init__(self) -> None:
        super().__init__()
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.data += bytes(data)
        return len(data)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zip_that_was_written_as_a_stream_or_has_a_comment_is_unpacked(method: int, tmp_path: Path) -> None:
    pipe = Pipe()
    with zipfile.ZipFile(cast("Any", pipe), "w", method) as made:
        made.writestr("a/SKILL.md", "text")
        made.writestr("a/caf\u00e9.txt", "more")
        # As `git archive` writes the commit.
        made.comment = b"0123456789abcdef0123456789abcdef01234567"
    assert unpacked(pipe.data, tmp_path) == {"a/SKILL.md": b"text", "a/caf\u00e9.txt": b"more"}


def test_bytes_around_the_entries_of_a_zip_are_refused(tmp_path: Path) -> None:
    def packed(name: str) -> bytes:
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as archive:
            archive.writestr(name, "text")
        return made.getvalue()

    one, two = packed("a/SKILL.md"), packed("b/SKILL.md")
    assert "another archive" in refusal(one + two, tmp_path, InvalidSkill)
    assert "before its first entry" in refusal(b"PK\x03\x04 and more" + one, tmp_path, InvalidSkill)
    # Between the last entry and the directory.
    where = one.index(b"PK\x01\x02")
    moved = bytearray(one[:where] + two + one[where:])
    end = moved.rindex(b"PK\x05\x06")
    moved[end + 16 : end + 20] = (where + len(two)).to_bytes(4, "little")
    assert "after 'a/SKILL.md'" in refusal(bytes(moved), tmp_path, InvalidSkill)


def test_entries_that_share_bytes_are_refused(tmp_path: Path) -> None:
    kernel = deflated(bytes(10_000))
    entries = [Entry(f"{n}", bytes(10_000), 8, packed=kernel, offset=0) for n in range(5)]
    assert "overlaps" in refusal(raw_zip(entries), tmp_path, InvalidSkill)


def test_an_entry_that_quotes_the_header_of_the_next_is_refused(tmp_path: Path) -> None:
    inner = raw_zip([Entry("inner", b"data")])
    local = inner[: inner.index(b"PK\x01\x02")]
    outer = Entry("outer", local)
    data = raw_zip([outer, Entry("inner", b"data", offset=30 + len("outer"))])
    assert "'outer' overlaps 'inner'" in refusal(data, tmp_path, InvalidSkill)


def test_an_entry_that_runs_into_the_directory_is_refused(tmp_path: Path) -> None:
    good = raw_zip([Entry("a", b"12345")])
    lying = good.replace(b"\x05\0\0\0\x05\0\0\0", b"\x09\0\0\0\x09\0\0\0")
    assert "overlaps 'the directory'" in refusal(lying, tmp_path, InvalidSkill)


def test_an_entry_that_is_larger_than_it_says_is_refused(tmp_path: Path) -> None:
    content = bytes(30_000)
    lie = Entry("big", content, 8, packed=deflated(content), declared=1)
    assert "has 30,000 bytes but declares 1" in refusal(raw_zip([lie]), tmp_path, InvalidSkill)


def test_a_lying_entry_is_stopped_by_what_really_comes_out(tmp_path: Path) -> None:
    content = bytes(3_000_000)
    lie = Entry("big", content, 8, packed=deflated(content), declared=1)
    assert "'big' is larger than 50,000 bytes" in refusal(raw_zip([lie]), tmp_path, LimitExceeded, SMALL)


def test_an_entry_that_is_too_large_is_refused(tmp_path: Path) -> None:
    for data in (zip_of({"big": os.urandom(60_000)}), tar_of({"big": os.urandom(60_000)})):
        assert "'big' is larger than 50,000 bytes" in refusal(data, tmp_path, LimitExceeded, SMALL)


def test_too_many_bytes_together_are_refused(tmp_path: Path) -> None:
    files = {str(number): os.urandom(40_000) for number in range(3)}
    for data in (zip_of(files), tar_of(files)):
        assert "more than 100,000 bytes" in refusal(data, tmp_path, LimitExceeded, SMALL)


def test_too_many_entries_are_refused(tmp_path: Path) -> None:
    files = {str(number): b"" for number in range(6)}
    assert "6 entries; the limit is 5" in refusal(zip_of(files), tmp_path, LimitExceeded, SMALL)
    assert "more than 5 entries" in refusal(tar_of(files), tmp_path, LimitExceeded, SMALL)


def test_folders_that_are_only_implied_count(tmp_path: Path) -> None:
    files = {"/".join([str(number)] * 10): b"" for number in range(10)}
    for data in (zip_of(files), tar_of(files)):
        message = refusal(data, tmp_path, LimitExceeded, UnpackLimits(entries=50))
        assert "more than 50 files and folders with '5/5/5/5/5/5/5/5/5/5'" in message


def test_a_directory_of_absurd_size_is_not_read_into_memory(tmp_path: Path) -> None:
    entries = [Entry(f"{number:0200}") for number in range(6_000)]
    message = refusal(raw_zip(entries), tmp_path, LimitExceeded, SMALL)
    assert "its directory has more than 1,048,576 bytes" in message


def test_what_inflates_more_than_a_hundred_times_is_refused(tmp_path: Path) -> None:
    bomb = {"zeros": bytes(9 << 20)}
    for data in (zip_of(bomb), tar_of(bomb), tar_of(bomb, "w:bz2"), tar_of(bomb, "w:xz")):
        assert "more than 100 times its own size with the entry 'zeros'" in refusal(data, tmp_path, LimitExceeded)


def test_zeros_after_the_end_of_a_tar_count_as_well(tmp_path: Path) -> None:
    tar = tar_of({"a": b"1"}, "w:") + bytes(9 << 20)
    assert "more than 100 times" in refusal(gzip.compress(tar), tmp_path, LimitExceeded)


def test_a_small_file_that_packs_well_is_not_a_bomb(tmp_path: Path) -> None:
    assert unpacked(zip_of({"zeros": bytes(1 << 20)}), tmp_path) == {"zeros": bytes(1 << 20)}


def test_an_archive_in_an_archive_stays_a_file(tmp_path: Path) -> None:
    inner = zip_of({"../x": b"x"})
    assert unpacked(zip_of({"inner.zip": inner}), tmp_path) == {"inner.zip": inner}


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_appears_twice_is_refused(tmp_path: Path) -> None:
    assert "'a' appears twice" in refusal(raw_zip([Entry("a", b"1"), Entry("a", b"2")]), tmp_path, InvalidSkill)
    twice = tar_with(tarfile.TarInfo("a"), tarfile.TarInfo("./a"))
    assert "appears twice" in refusal(twice, tmp_path, InvalidSkill)


@pytest.mark.parametrize(
    ("first", "second"),
    [("A.md", "a.md"), ("Docs/x", "docs/y"), ("caf\u00e9", "cafe\u0301"), ("stra\u00dfe", "STRASSE")],
)
def test_names_that_are_one_file_on_some_machines_are_refused(first: str, second: str, tmp_path: Path) -> None:
    message = refusal(zip_of({first: b"1", second: b"2"}), tmp_path, InvalidSkill)
    assert "differ only in case or Unicode form" in message


@pytest.mark.parametrize("names", [("a", "a/b"), ("a/b", "a")])
def test_a_file_where_a_folder_is_needed_is_refused(names: tuple[str, str], tmp_path: Path) -> None:
    data = tar_with(*map(tarfile.TarInfo, names))
    assert "'a' is both a file and a folder" in refusal(data, tmp_path, InvalidSkill)


@pytest.mark.parametrize("make", [zip_of, tar_of, plain_tar, tar_xz])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.8])
def test_an_archive_that_was_cut_off_is_refused(make: Make, share: float, tmp_path: Path) -> None:
    data = make({"a": os.urandom(20_000), "b": os.urandom(20_000)})
    assert "damaged or incomplete" in refusal(data[: int(len(data) * share)], tmp_path, InvalidSkill)


def test_a_tar_cut_off_between_two_members_is_refused(tmp_path: Path) -> None:
    data = tar_of({"a": bytes(512), "b": bytes(512)}, "w:")
    assert "unexpected end of file" in refusal(data[:1024], tmp_path, InvalidSkill)


def test_a_damaged_header_in_the_middle_does_not_pass_as_the_end(tmp_path: Path) -> None:
    data = bytearray(tar_of({"a": bytes(512), "b": bytes(512)}, "w:"))
    data[1024] ^= 0xFF
    assert "checksum in a header" in refusal(bytes(data), tmp_path, InvalidSkill)


def test_flipped_bits_are_noticed(tmp_path: Path) -> None:
    for data in (zip_of({"a": os.urandom(5000)}), tar_of({"a": os.urandom(5000)})):
        broken = bytearray(data)
        broken[len(data) // 2] ^= 0xFF
        assert "damaged or incomplete" in refusal(bytes(broken), tmp_path, InvalidSkill)


@pytest.mark.parametrize(
    "size", [b"\xff" * 12, b"-0000000001\0", b"99999999999\0", b"garbage here", b"\x80" + b"\xff" * 11]
)
def test_absurd_sizes_in_a_tar_are_refused(size: bytes, tmp_path: Path) -> None:
    refusal(tar_header(b"good") + tar_header(size=size) + bytes(1024), tmp_path, InvalidSkill)


@pytest.mark.parametrize(
    "record", [b"2 2 2 2 2 2 ", b"0 a=b\n", b"999 path=x\n", b"-5 path=x\n", b"path=x\n", b"9 size=-1\n"]
)
def test_extended_headers_that_make_no_sense_are_refused(record: bytes, tmp_path: Path) -> None:
    header = tar_header(b"pax", f"{len(record):011o}\0".encode(), b"x") + record.ljust(512, b"\0")
    refusal(header + tar_header() + bytes(1024), tmp_path, InvalidSkill)


def test_a_huge_extended_header_is_refused(tmp_path: Path) -> None:
    header = tar_header(b"pax", f"{10_000_000:011o}\0".encode(), b"x")
    assert "a header has 10,000,000 bytes" in refusal(header + bytes(2048), tmp_path, InvalidSkill)


def test_a_long_chain_of_extended_headers_is_read_without_recursion(tmp_path: Path) -> None:
    record = b"11 path=ok\n".ljust(512, b"\0")
    chain = (tar_header(b"pax", b"00000000013\0", b"x") + record) * 3000
    assert unpacked(chain + tar_header() + bytes(1024), tmp_path) == {"ok": b""}


def test_a_zip_with_offsets_beyond_the_file_is_refused(tmp_path: Path) -> None:
    refusal(raw_zip([Entry("a", b"x", offset=0xFFFFFFF0)]), tmp_path, InvalidSkill)


@pytest.mark.parametrize("data", [b"", b"hello", bytes(2048), b"<html></html>" * 100, b"Rar!\x1a\x07\0"])
def test_what_is_not_an_archive_is_refused(data: bytes, tmp_path: Path) -> None:
    assert "not a zip or tar archive" in refusal(data, tmp_path, UnsupportedMedia)


def test_a_missing_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match=r"gone\.zip: cannot be read: No such file"):
        unpack(tmp_path / "gone.zip", tmp_path / "out")


def test_an_existing_destination_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "cache/out").mkdir(parents=True)
    with pytest.raises(InvalidArgument, match="already exists"):
        unpacked(zip_of(FILES), tmp_path)
    assert list((tmp_path / "cache/out").iterdir()) == []


def test_what_a_killed_process_left_is_removed_after_an_hour(tmp_path: Path) -> None:
    old, fresh = tmp_path / "cache/.arriving-old", tmp_path / "cache/.arriving-fresh"
    for directory in (old, fresh):
        (directory / "half").mkdir(parents=True)
    os.utime(old, (time.time() - 4000, time.time() - 4000))
    unpacked(zip_of(FILES), tmp_path)
    assert (old.exists(), fresh.exists()) == (False, True)


def test_the_format_is_seen_in_the_first_bytes() -> None:
    assert detect_format(zip_of({})[:512]) == "zip"
    assert detect_format(tar_of({"a": b""}, "w:")[:512]) == "tar"
    assert detect_format(tar_of({}, "w:gz")[:512]) == "gzip"
    assert detect_format(b"---\nname: x\n") is None


def test_a_skill_is_packed_to_the_same_bytes_for_an_upload_and_for_publication(tmp_path: Path) -> None:
    folder = tmp_path / "hello"
    for path, data in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    pack_folder(folder, "hello", tmp_path / "hello.zip")
    packed = (tmp_path / "hello.zip").read_bytes()

    files = read_files(Catalog.from_paths(folder).get("hello"))
    assert build_archive(file.under("hello") for file in files) == packed
    assert [file.path for file in files if file.executable] == ["scripts/run.sh"]
