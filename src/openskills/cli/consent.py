"""Asking a person whether the skills of a project may be used."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from openskills.cli.output import plain, warn
from openskills.cli.problems import shown_path
from openskills.settings import Settings

if TYPE_CHECKING:
    from openskills.catalog.skill import Skill
    from openskills.catalog.snapshot import Snapshot
    from openskills.catalog.standard import Place, ProjectSource

_MOST_NAMES = 30


def ask_about(project: "ProjectSource", settings: Settings) -> None:
    """Ask about the places of a project that nobody has decided about, once: the answer holds until they change."""
    from openskills.catalog.trust import Answer

    # What cannot be agreed to is no question. The catalog reports it.
    undecided = [place for place in project.places() if place.answer is None and place.digest is not None]
    if not undecided:
        return
    warn("The project ", (shown_folder(project), "bold"), " brings skills that nobody has agreed to as they are now:")
    show_names(brought_by(undecided, skills_of(project, settings)), warn)
    agreed = ask()
    if agreed is None:
        return
    project.remember(undecided, Answer.YES if agreed else Answer.NO)
    if not agreed:
        warn("They are not used. `openskills trust` changes your mind.")


def skills_of(project: "ProjectSource", settings: Settings) -> "Snapshot":
    """The skills of a project, trusted or not, for people to look at. Only front matter is read."""
    from dataclasses import replace

    from openskills.catalog.catalog import Catalog

    return Catalog([replace(project, trusted=True)], settings).snapshot


def everything_in(snapshot: "Snapshot") -> "list[Skill]":
    """Visible and hidden skills, by name."""
    hidden = [each.skill for each in snapshot.hidden.values()]
    return sorted([*snapshot.skills, *hidden], key=lambda skill: skill.name)


def brought_by(places: "Sequence[Place]", found: "Snapshot") -> "list[Skill]":
    """What an agreement to these places covers: also what is shadowed now, for it may count tomorrow."""
    labels = {place.label for place in places}
    skills = [*everything_in(found), *(each.skill for each in found.shadowed)]
    return sorted((skill for skill in skills if skill.source in labels), key=lambda skill: (skill.name, skill.source))


def ask() -> bool | None:
    """Wait for an answer on the terminal; anything but yes is no, and an end of input is no answer."""
    warn("Skills tell an agent what to do and may bring programs. Look at them before you agree.")
    sys.stderr.write("Use the skills of this project? [y/N] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    return answer.strip().lower() in {"y", "yes"} if answer else None


def show_names(skills: "list[Skill]", write: Callable[..., None]) -> None:
    """A line per skill, written with `say` or `warn`."""
    for skill in skills[:_MOST_NAMES]:
        write("  ", (plain(skill.name), "bold cyan"), f"  {shown_path(skill.directory)}")
    if len(skills) > _MOST_NAMES:
        write(f"  and {len(skills) - _MOST_NAMES:,} more")


def shown_folder(project: "ProjectSource") -> str:
    """The project's folder in full: whoever agrees must know to what."""
    return plain(str(project.project))
