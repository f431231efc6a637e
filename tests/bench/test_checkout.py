from pathlib import Path

import pytest

from openskills.bench.checkout import Checkout, build_command, find_checkout
from openskills.errors import InvalidArgument


def checkout_in(top: Path) -> Path:
    """A checkout with two benchmarks, one of which the page does not know."""
    (top / "src" / "openskills").mkdir(parents=True)
    scripts = top / "benchmarks"
    scripts.mkdir()
    (scripts / "suite.py").write_text("raise SystemExit('never run')")
    (scripts / "report.py").write_text('_SECTIONS = ("prompt_cache", "gone")')
    (scripts / "prompt_cache.py").write_text('"""What a cache keeps: `make bench`.\n\nMore."""')
    (scripts / "part.py").write_text('"""A part of something."""')
    return scripts


def found(here: Path) -> Checkout:
    checkout = find_checkout(here)
    assert checkout is not None
    return checkout


def test_a_checkout_is_found_from_below_and_lists_what_has_a_section_and_a_script(tmp_path: Path) -> None:
    scripts = checkout_in(tmp_path)
    below = tmp_path / "docs" / "guides"
    below.mkdir(parents=True)
    assert found(below).directory == scripts
    assert [(one.name, one.about) for one in found(below).benchmarks] == [("prompt-cache", "What a cache keeps")]


def test_elsewhere_the_checkout_that_the_package_lies_in_is_found(tmp_path: Path) -> None:
    names = [one.name for one in found(tmp_path).benchmarks]
    assert {"discovery", "running", "context", "tools"} <= set(names)


@pytest.mark.parametrize("name", ["prompt-cache", "prompt_cache"])
def test_a_name_may_be_written_both_ways(name: str, tmp_path: Path) -> None:
    scripts = checkout_in(tmp_path)
    command = build_command(found(tmp_path).find(name), ["--quick"])
    assert command[1:] == [str(scripts / "prompt_cache.py"), "--quick"]


@pytest.mark.parametrize("name", ["request-building", "request_building"])
def test_a_benchmark_is_found_by_its_other_name(name: str, tmp_path: Path) -> None:
    assert found(tmp_path).find(name).name == "context"


def test_something_near_to_the_other_name_is_answered_with_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="did you mean 'request-building'"):
        found(tmp_path).find("request-bilding")


@pytest.mark.parametrize("name", ["part", "../prompt_cache", "suite", ""])
def test_what_is_no_benchmark_is_refused_with_those_there_are(name: str, tmp_path: Path) -> None:
    checkout_in(tmp_path)
    with pytest.raises(InvalidArgument, match="prompt-cache"):
        found(tmp_path).find(name)
