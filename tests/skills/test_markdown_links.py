"""Links that lead nowhere, and those that only look so."""

import json
from pathlib import Path

from tests.skills.shipped import misuse, run_script

SCRIPT = "markdown-links/scripts/check_links.py"


def dead(place: Path, text: str, *arguments: str) -> list[str]:
    """The targets of a page that lead nowhere."""
    (place / "page.md").write_text(text, "utf-8")
    done = run_script(SCRIPT, "page.md", "--json", *arguments, cwd=place)
    found = [finding["target"] for finding in json.loads(done.stdout)]
    assert (done.returncode, done.stderr) == (1 if found else 0, "")
    return found


def test_names_with_blanks_brackets_anchors_and_other_scripts_are_found(tmp_path: Path) -> None:
    for name in ("a b.md", "c(1).md", "中文.md", "d.md"):
        (tmp_path / name).touch()
    good = "[1](<a b.md>) [2](a%20b.md) [3](c(1).md) [4](中文.md) [5](d.md#part) [6](d.md?x 'title')\n"
    assert dead(tmp_path, good + "![7](d.md)\n[8]: d.md\n") == []
    bad = "[1](<x y.md>) [2](x%20y.md) [3](x(1).md) [4](x#part) [5]( x )\n[6]: x.md 'title'\n[^7]: a note\n"
    assert dead(tmp_path, bad) == ["x y.md", "x%20y.md", "x(1).md", "x#part", "x", "x.md"]


def test_what_is_not_a_relative_link_is_left_alone(tmp_path: Path) -> None:
    text = "[a](https://e.org/x) [b](mailto:x@e.org) [c](#top) [d](//e.org) `[e](x)` \\[f] (x)\n~~~\n[g](x)\n~~~\n"
    assert dead(tmp_path, text) == []


def test_a_link_from_the_root_is_below_the_root(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a.md").touch()
    assert dead(tmp_path, "[a](/a.md)") == ["/a.md"]
    assert dead(tmp_path, "[a](/a.md)", "--root", "site") == []


def test_hostile_targets_and_pages_end_in_no_traceback(tmp_path: Path) -> None:
    assert len(dead(tmp_path, f"[a]({'x' * 5000}) [b](x%00y) [c](%ff) " + "](" * 20_000)) == 3
    (tmp_path / "page.md").write_bytes(b"\x00\xff\xfe [a](gone.md) \x80")
    assert run_script(SCRIPT, "page.md", cwd=tmp_path).stdout == "page.md:1: gone.md\n"


def test_a_page_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "big.md").write_bytes(b"x" * 20_000_001)
    (tmp_path / "page.md").write_text("[a](gone.md)")
    done = run_script(SCRIPT, ".", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "page.md:1: gone.md\n")
    assert done.stderr.startswith("error: cannot read big.md: the page is larger than 20,000,000 bytes")


def test_a_folder_and_a_page_in_it_are_looked_at_once(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("[a](gone.md)")
    assert run_script(SCRIPT, ".", "page.md", cwd=tmp_path).stdout.count("gone.md") == 1
    assert misuse(run_script(SCRIPT, "nowhere", cwd=tmp_path)) == "nowhere does not exist"
