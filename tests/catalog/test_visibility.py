"""A hidden skill is hidden for a reason that a person can act on."""

import pytest

from openskills.catalog.visibility import Machine, hidden_reason
from openskills.settings import Settings
from openskills.skillmd.manifest import SkillManifest
from openskills.skillmd.requirements import Requirements

MACHINE = Machine("linux", {"git", "jq"}.__contains__, {"TOKEN": "x", "EMPTY": ""})


def reason(**needs: tuple[str, ...] | bool) -> str | None:
    requirements = Requirements(**needs)  # type: ignore[arg-type]
    return hidden_reason(SkillManifest("a", "b", requirements=requirements), MACHINE)


def test_a_skill_without_demands_is_visible() -> None:
    assert reason() is None


def test_demands_that_are_met_hide_nothing() -> None:
    assert reason(bins=("git",), any_bins=("rg", "jq"), env=("TOKEN",), platforms=("linux", "darwin")) is None


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        ({"bins": ("git", "ffmpeg", "sox")}, "the program ffmpeg and sox; install it"),
        ({"any_bins": ("rg", "ag")}, "one of the programs rg or ag"),
        ({"env": ("OTHER",)}, "the environment variable OTHER; set it"),
        ({"env": ("EMPTY",)}, "the environment variable EMPTY"),
        ({"platforms": ("darwin",)}, "for darwin, and this is linux"),
    ],
)
def test_an_unmet_demand_names_what_is_missing_and_what_to_do(needs: dict[str, tuple[str, ...]], words: str) -> None:
    assert words in (reason(**needs) or "")


def test_always_overrides_unmet_demands() -> None:
    assert reason(bins=("ffmpeg",), always=True) is None


def test_a_skill_that_its_author_reserves_for_people_is_hidden() -> None:
    manifest = SkillManifest("a", "b", disable_model_invocation=True)
    assert "disable-model-invocation" in (hidden_reason(manifest, MACHINE) or "")


def test_programs_are_looked_for_on_the_path_of_the_settings(settings: Settings) -> None:
    machine = Machine.here(settings)
    assert machine.has_program("sh")
    assert not machine.has_program("no-such-program")


def test_the_interpreter_that_executors_bring_is_on_every_machine() -> None:
    machine = Machine.here(Settings.from_env({"PATH": "/nowhere"}))
    assert machine.has_program("python")
    assert machine.has_program("python3")
    assert not machine.has_program("sh")


def test_a_long_list_of_missing_things_is_cut() -> None:
    assert "p0 and p1 and p2 and p3 and p4 and 95 more" in (reason(bins=tuple(f"p{n}" for n in range(100))) or "")
