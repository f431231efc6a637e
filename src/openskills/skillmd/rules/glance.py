"""Seeing at a glance that the specification can have no objection, as is so for most skills."""

import re

from openskills.skillmd.rules.rule import Subject

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_JUDGED = frozenset({"license", "compatibility", "allowed-tools"})


def plainly_valid(subject: Subject) -> bool:
    """Whether no rule of severity error has anything to say. False means only that they have to be asked.

    Loading thousands of skills asks this first; a property test holds it to the rules.
    """
    name, description, fields = subject.manifest.name, subject.manifest.description, subject.fields
    return (
        name == subject.folder == fields.get("name")
        and len(name) <= 64
        and _NAME.fullmatch(name) is not None
        and 0 < len(description) <= 1024
        and _JUDGED.isdisjoint(fields)
        and ("metadata" not in fields or isinstance(fields["metadata"], dict))
    )
