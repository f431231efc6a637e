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


def test_a_directory_is_shown_at_its_own_path_also_behind_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    system = visible_system([link])
    assert str(real) in system.binds
    assert (str(real), str(link)) in system.links


def test_what_is_shown_below_etc_gets_a_place_or_a_link_there(tmp_path: Path) -> None:
    below = next(path for path in sorted(Path("/etc").iterdir()) if path.is_dir() and not path.is_symlink())
    assert visible_system([below]).in_etc == ((str(below), None),)
    assert visible_system([tmp_path]).in_etc == ()
    linked = [path for path in Path("/etc").rglob("*") if path.is_symlink() and path.is_dir()]
    for path in linked[:1]:
        system = visible_system([path])
        assert (str(path), os.path.realpath(path)) in system.in_etc
        assert str(path) not in [place for _, place in system.links]


def test_what_is_shown_already_is_not_shown_twice() -> None:
    assert visible_system([Path("/usr/lib")]).binds == visible_system([]).binds
    prefix = os.path.realpath(sys.base_prefix)
    assert visible_system([Path(prefix), Path(prefix) / "lib"]).binds.count(prefix) <= 1
