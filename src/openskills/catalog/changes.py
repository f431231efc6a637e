"""What a refresh changed."""

from dataclasses import dataclass

from openskills.catalog.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Changes:
    """Names of visible skills that are new, that are gone, and whose SKILL.md or source differs."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def difference(before: Snapshot, after: Snapshot) -> Changes:
    """What became of the visible skills between two snapshots."""
    old = {skill.name: skill for skill in before.skills}
    new = {skill.name: skill for skill in after.skills}
    return Changes(
        added=tuple(sorted(new.keys() - old.keys())),
        removed=tuple(sorted(old.keys() - new.keys())),
        changed=tuple(name for name in new if name in old and new[name] is not old[name]),
    )
