import os
import sys
from pathlib import Path

from openskills.executors.sandbox.visible import visible_system


def test_the_system_is_an_allow_list_without_the_root_and_without_homes() -> None:
    system = visible_system([])
    assert "/usr" in system.binds
    assert not {"/", "/etc", "/home", "/root", "/var", "/run", "/sys", "/proc"} & set(system.binds)
    assert all(os.path.exists(path) for path in system.binds)


def test_programs_are_found_where_the_host_has_them() -> None:
    system = visible_system([])
    for path in ("/bin", "/lib"):
        assert (os.readlink(path), path) in system.links if os.path.islink(path) else path in system.binds


def test_users_of_the_machine_are_not_shown() -> None:
    contents = {path: content for path, content in visible_system([]).files if isinstance(content, bytes)}
    assert [line.partition(b":")[0] for line in contents["/etc/passwd"].splitlines()] == [b"root", b"u", b"nobody"]


def test_a_directory_is_shown_at_its_own_path_also_behind_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    system = visible_system([link])
    assert str(real) in system.binds
    assert (str(real), str(link)) in system.links


def test_what_is_shown_already_is_not_shown_twice() -> None:
    assert visible_system([Path("/usr/lib")]).binds == visible_system([]).binds
    prefix = os.path.realpath(sys.base_prefix)
    assert visible_system([Path(prefix), Path(prefix) / "lib"]).binds.count(prefix) <= 1
