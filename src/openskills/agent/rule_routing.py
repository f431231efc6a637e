"""From a request in words to a skill: by its name, by the rules, by the catalog's search. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from openskills.agent.rule_request import without_files
from openskills.agent.rule_table import RULES, Rule
from openskills.agent.rule_words import all_words, is_enough, same_work, telling_words
from openskills.catalog.skill import Skill
from openskills.catalog.snapshot import Snapshot
from openskills.catalog.words import fold, name_words, squeeze, stem
from openskills.errors import UnknownSkill

_ASKED = re.compile(r"(?<!\S)[$/](?P<name>[^\W_][\w-]*)(?![\w/.-])")
_MOST_CHARACTERS = 4_000
_NEAREST = 3
_HITS = 10
_CALLED = {
    "md": "markdown",
    "txt": "text",
    "docx": "word",
    "xlsx": "excel",
    "yml": "yaml",
    "jpg": "image",
    "png": "image",
}


_TEXT = stem("text")


class Reason(StrEnum):
    """Why a skill was chosen, or none."""

    NAMED = "named"
    RULE = "rule"
    SEARCH = "search"
    LOADED = "loaded"
    UNKNOWN = "unknown"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request goes. `detail` is the rule that decided, or the name that no skill has; `near` other skills."""

    skill: str | None
    reason: Reason
    detail: str = ""
    near: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """The reason for a log: nothing that a user wrote is in it."""
        return f"{self.reason}:{self.detail}" if self.reason is Reason.RULE else str(self.reason)


def route(text: str, files: Sequence[str], skills: Snapshot, loaded: Sequence[str] = ()) -> Route:
    """The skill for a request with these files; `loaded` are those that are in sight already, the newest last.

    A name decides, as `$name`, `/name` or in the text; then the first rule that the catalog has a fitting skill for;
    then search, for what shares enough words with the request. A loaded skill is preferred to another that was only
    searched for, and is taken when nothing else fits.
    """
    text = text[:_MOST_CHARACTERS]
    asked = _ASKED.match(text)
    if asked is not None and not skills.has(asked["name"]):
        return Route(None, Reason.UNKNOWN, asked["name"], _nearest(asked["name"], skills))
    named = _named(text, skills)
    if named is not None:
        return Route(named, Reason.NAMED)
    found = _by_rule(text, files, skills)
    if found is not None:
        return Route(found[0], Reason.RULE, found[1].skill_id)
    text = without_files(text, files)
    hits = [hit.skill for hit in skills.search(_query(text, files), _HITS)]
    fitting = [skill.name for skill in hits if _shares_enough(text, files, skill) and _takes(skill.name, files, skills)]
    visible = [name for name in loaded if skills.has(name)]
    kept = [name for name in visible if name in fitting or not fitting]
    if kept:
        return Route(kept[-1], Reason.LOADED)
    near = tuple(skill.name for skill in hits if _common(text, files, skill))[:_NEAREST]
    return Route(fitting[0], Reason.SEARCH, near=near) if fitting else Route(None, Reason.NOTHING, near=near)


def without_name(text: str, skill: str) -> str:
    """The request without `$name` or `/name`."""
    return re.sub(rf"(?<!\S)[$/]{re.escape(skill)}(?![\w/.-])[ \t]*", "", text).strip()


def _named(text: str, skills: Snapshot) -> str | None:
    for asked in _ASKED.finditer(text):
        if skills.has(asked["name"]):
            return asked["name"]
    folded = fold(text)
    found = [skill.name for skill in skills.skills if _stands_in(skill.name, folded)]
    # The longest: `pdf-forms` in a text has `pdf` in it, too.
    return max(found, key=len, default=None)


def _stands_in(name: str, folded: str) -> bool:
    name = fold(name)
    if name not in folded:
        return False
    return re.search(rf"(?<![a-z0-9_./-]){re.escape(name)}(?![a-z0-9_/-]|\.\w)", folded) is not None


def _by_rule(text: str, files: Sequence[str], skills: Snapshot) -> tuple[str, Rule] | None:
    for rule in RULES:
        if rule.fits(text):
            name = _fitting(rule, text, skills)
            if name is not None and _takes(name, files, skills):
                return name, rule
    return None


def _fitting(rule: Rule, text: str, skills: Snapshot) -> str | None:
    """The skill of the rule's name, however it separates its words, or the best of those with a name of that kind."""
    same = squeeze(rule.skill_id)
    exact = next((skill.name for skill in skills.skills if squeeze(skill.name) == same), None)
    if exact is not None:
        return exact
    kin = [skill.name for skill in skills.skills if rule.kin & set(name_words(skill.name))]
    hits = [hit.skill.name for hit in skills.search(text, _HITS) if hit.skill.name in kin] if kin else []
    return next(iter((*hits, *kin)), None)


def _takes(name: str, files: Sequence[str], skills: Snapshot) -> bool:
    """Whether a skill is for files of this kind: it speaks of them, or no skill does, or it is text, which all read."""
    own = _spoken_of(skills.get(name))
    return all(
        ending in own or not any(ending in _spoken_of(hit.skill) for hit in skills.search(ending, _HITS))
        for ending in _endings(files)
        if ending != _TEXT
    )


def _spoken_of(skill: Skill) -> set[str]:
    manifest = skill.manifest
    about = (skill.name, skill.description, manifest.when_to_use or "", *manifest.keywords)
    return set(all_words(" ".join(about)))


def _endings(files: Sequence[str]) -> list[str]:
    """What files are called by their kind; as skills call it, where that is another word."""
    endings = [name.rpartition(".")[2].lower() for name in files if "." in name]
    return [stem(_CALLED.get(ending, ending)) for ending in endings]


def _query(text: str, files: Sequence[str]) -> str:
    return " ".join((text, *_endings(files)))


def _shares_enough(text: str, files: Sequence[str], skill: Skill) -> bool:
    common = _common(text, files, skill)
    return is_enough(len(common), len(common | set(telling_words(text))))


def _common(text: str, files: Sequence[str], skill: Skill) -> set[str]:
    """The words of a request, or of its files, that a skill has, or has another word for."""
    own = _spoken_of(skill)
    known = own | {same_work(word) for word in own}
    return {word for word in (*telling_words(text), *_endings(files)) if word in own or same_work(word) in known}


def _nearest(name: str, skills: Snapshot) -> tuple[str, ...]:
    try:
        return (skills.get(name).name,)
    except UnknownSkill as error:
        return tuple(error.near)
