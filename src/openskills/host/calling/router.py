"""From a request in words to a skill: by the rules of the mission, by search, or to the default, which is no answer."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from openskills.agent.rule_table import RULES, Rule
from openskills.agent.rule_words import all_words, is_enough, telling_words
from openskills.catalog.search import SearchIndex
from openskills.catalog.skill import Skill
from openskills.catalog.words import squeeze
from openskills.errors import InvalidArgument
from openskills.skillmd.manifest import SkillManifest
from openskills.trace import bind

DEFAULT = "echo"
COMMANDS = (
    "echo: TEXT",
    "find TEXT / 搜索 TEXT",
    "mean, median, min, max of NUMBERS / 平均 NUMBERS",
    "parse PATH of a log / 转换日志 PATH",
)
"""What the rules understand, for those whom they did not."""

_LOG = logging.getLogger("openskills.host.calling.router")
_MOST_CHARACTERS = 4_000
_HITS = 10
_NEAR = 3


class Stage(StrEnum):
    """What decided. `SEARCH` looks at the host's skills, `CATALOG` at SKILL.md folders, `DEFAULT` at nothing."""

    RULE = "rule"
    SEARCH = "search"
    CATALOG = "catalog"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Offered:
    """A skill that the host can invoke, as far as routing goes."""

    id: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a request goes, and why. `detail` is the word of the text that decided, or empty.

    `hosted` says whether the host can invoke it; None when nobody asked the host. `near` are other skills that fit.
    `notes` are sentences about what else was found on the way.
    """

    selected_skill_id: str
    stage: Stage
    detail: str = ""
    hosted: bool | None = None
    near: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def understood(self) -> bool:
        """False when nothing fits and the request goes to the default."""
        return self.stage is not Stage.DEFAULT

    @property
    def routing_reason(self) -> str:
        """For a log: a rule by its skill and word, both from our table; of other stages nothing that a user wrote."""
        return f"rule:{self.detail}" if self.stage is Stage.RULE else str(self.stage)


class Router:
    """Decides for requests.

    `hosted` are the skills of a host, None when it cannot be asked; `catalog` those of SKILL.md folders.
    """

    def __init__(self, hosted: Sequence[Offered] | None, catalog: Sequence[Skill] = ()) -> None:
        self._hosted = hosted
        self._ids = {squeeze(one.id): one.id for one in reversed(hosted or ())}
        self._search = SearchIndex([_as_skill(one) for one in hosted or ()])
        self._catalog = SearchIndex([skill for skill in catalog if squeeze(skill.name) not in self._ids])

    def choose(self, text: str, *, trace_id: str | None = None) -> Decision:
        """The skill for a request; the first rule that fits, then search, then the default. Writes a line of the log.

        Raises `InvalidArgument` for a text without a word.
        """
        if not text.strip():
            raise InvalidArgument("text", "is empty; say what is wanted, such as 'echo: hello'")
        text = text[:_MOST_CHARACTERS]
        with bind(trace_id):
            chosen = self._decide(text)
            fields = {"selected_skill_id": chosen.selected_skill_id, "routing_reason": chosen.routing_reason}
            _LOG.info("routed to %s by %s", chosen.selected_skill_id, chosen.stage, extra=fields)
        return chosen

    def _decide(self, text: str) -> Decision:
        fitting = list(_fitting(text))
        known = [(self._id_of(rule), word) for rule, word in fitting]
        found = [(skill_id, word) for skill_id, word in known if skill_id]
        notes = tuple(
            f"the rule for {rule.skill_id} fits {word!r}, but the host has no such skill"
            for (rule, word), (skill_id, _) in zip(fitting, known, strict=True)
            if not skill_id
        )
        if found:
            near = tuple(skill_id for skill_id, _ in found[1:])
            asked = None if self._hosted is None else True
            return Decision(found[0][0], Stage.RULE, found[0][1], asked, near, notes)
        return self._searched(text, notes)

    def _id_of(self, rule: Rule) -> str:
        """The id that the host has for the skill of a rule, however it separates words; empty when it has none."""
        return rule.skill_id if self._hosted is None else self._ids.get(squeeze(rule.skill_id), "")

    def _searched(self, text: str, notes: tuple[str, ...]) -> Decision:
        hosted, found = (_matches(index, text) for index in (self._search, self._catalog))
        if hosted:
            return Decision(hosted[0], Stage.SEARCH, "", True, (*hosted[1:], *found)[:_NEAR], notes)
        if found:
            return Decision(found[0], Stage.CATALOG, "", False, tuple(found[1 : _NEAR + 1]), notes)
        default = self._ids.get(DEFAULT)
        asked = None if self._hosted is None else default is not None
        return Decision(default or DEFAULT, Stage.DEFAULT, "", asked, (), notes)


def _fitting(text: str) -> Iterator[tuple[Rule, str]]:
    for rule in RULES:
        words = (match.group() for match in rule.pattern.finditer(text))
        # The table also knows `17 * 23`, for agents with a calculator that multiplies; the hosted one has statistics.
        word = next((word for word in words if not any(map(str.isdigit, word))), None)
        if word is not None:
            yield rule, word.strip().lower().replace("：", ":")


def _matches(index: SearchIndex, text: str) -> list[str]:
    """The skills that share enough words with a request, best first. The best of a bad lot is none of them."""
    asked = set(telling_words(text))
    return [hit.skill.name for hit in index.search(text, _HITS) if is_enough(_common(asked, hit.skill), len(asked))]


def _common(asked: set[str], skill: Skill) -> int:
    about = (skill.name, skill.description, skill.manifest.when_to_use or "", *skill.manifest.keywords)
    return len(asked & set(all_words(" ".join(about))))


def _as_skill(one: Offered) -> Skill:
    return Skill(SkillManifest(one.id, one.description), directory="", source="host")
