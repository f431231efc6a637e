"""Which documents of a skill a model means. Blocking reads of directories only."""

from collections.abc import Sequence
from difflib import get_close_matches

from openskills.catalog.skill import Skill
from openskills.catalog.skillfile import SKILL_FILE
from openskills.errors import InvalidArgument
from openskills.prompt.fragments import parse_fragment
from openskills.session.changes import ALL


def checked_docs(skill: Skill, docs: Sequence[str] | None, *, include_all: bool = False) -> tuple[str, ...] | None:
    """The selection that was asked for, each once; `(ALL,)` for every document, None when none was named.

    A path may end in `#L10` or `#L10-L20`: the lines from there on. Raises `InvalidArgument` with the nearest paths for
    what is no document of the skill.
    """
    if include_all or (docs and ALL in docs):
        return (ALL,)
    if docs is None:
        return None
    known = [resource.path for resource in skill.docs()]
    return tuple(dict.fromkeys(_checked(skill, path.removeprefix("./"), known) for path in docs))


def _checked(skill: Skill, wanted: str, known: Sequence[str]) -> str:
    path, lines = parse_fragment(wanted)
    if path in known or (path == SKILL_FILE and lines is not None):
        return wanted
    if path == SKILL_FILE:
        raise InvalidArgument("docs", f"{SKILL_FILE} is what skill_load itself shows; name other documents")
    raise InvalidArgument("docs", f"{wanted[:200]!r} is no document of {skill.name!r}; {_hint(skill, path, known)}")


def _hint(skill: Skill, path: str, known: Sequence[str]) -> str:
    if not known:
        return "it has none"
    if any(resource.path == path for resource in skill.resources()):
        return f"only .md and .txt files are; read it as skill://{skill.name}/{path}"
    same = [one for one in known if path and one.endswith(f"/{path}")]
    near = same[:3] or get_close_matches(path[:300], known, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    few = ", ".join(known[:10])
    return f"it has {few}" + (f" and {len(known) - 10} more; see skill_list_docs" if len(known) > 10 else "")
