"""What the rules do next in a turn: load one skill, run its command, once more at most, say what came of it. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeAlias

from openskills.agent.rule_answers import lacking, nothing, signed
from openskills.agent.rule_arguments import Filled, filled
from openskills.agent.rule_commands import Documented, best, documented
from openskills.agent.rule_phrases import CHINESE, ENGLISH
from openskills.agent.rule_request import is_chinese, meant, without_files
from openskills.agent.rule_results import outcome, quoted, report
from openskills.agent.rule_routing import Reason, Route, route, without_name
from openskills.agent.rule_turn import TurnSoFar
from openskills.catalog.snapshot import Snapshot
from openskills.prompt.messages import string
from openskills.tools.profiles import LOAD, RUN

MOST_RUNS = 2


@dataclass(frozen=True, slots=True)
class Load:
    """A skill is to be loaded."""

    skill: str


@dataclass(frozen=True, slots=True)
class Run:
    """A command of a loaded skill is to be run."""

    skill: str
    command: str


@dataclass(frozen=True, slots=True)
class Say:
    """The turn is over, with this answer."""

    text: str


Action: TypeAlias = Load | Run | Say


class Plan:
    """The next action of a turn; `route` is where its request goes. The same turn has the same plan."""

    def __init__(self, turn: TurnSoFar, tools: Collection[str], skills: Snapshot) -> None:
        self._turn = turn
        self._tools = tools
        self._skills = skills
        self._say = CHINESE if is_chinese(turn.text) else ENGLISH
        self._files = meant(turn.text, turn.files, turn.earlier)
        asked = {string(step.arguments, "skill") for step in turn.loads}
        before = [name for name in turn.bodies if name not in asked]
        self.route = route(turn.text, self._files, skills, before) if turn.text else Route(None, Reason.NOTHING)

    def next(self) -> Action:
        """What to do now."""
        if any(step.result is None for step in (*self._turn.loads, *self._turn.runs)):
            return self._answer(self._say.interrupted)
        if self._turn.runs:
            return self._after_run()
        if self._turn.loads:
            return self._after_load()
        return self._begin()

    def _begin(self) -> Action:
        skill = self.route.skill
        if not self._turn.text:
            return self._answer(self._say.no_request)
        if skill is None:
            return self._answer(nothing(self.route, self._skills, self._say))
        if skill in self._turn.bodies:
            return self._work(skill)
        if LOAD not in self._tools:
            return self._answer(self._say.no_load.format(skill=skill))
        return Load(skill)

    def _after_load(self) -> Action:
        step = self._turn.loads[-1]
        skill, result = string(step.arguments, "skill"), (step.result or "").strip()
        if result.startswith("error:"):
            return self._answer(self._say.not_loaded.format(skill=skill, why=result.removeprefix("error:").strip()))
        if skill in self._turn.bodies:
            return self._work(skill)
        # A skill that works in an agent of its own gives an answer instead of its text.
        return self._answer(f"{self._say.says.format(skill=skill)}\n\n{result}")

    def _work(self, skill: str) -> Action:
        body = self._turn.bodies[skill]
        ready = self._ready(skill)
        if RUN not in self._tools or ready is None:
            said = self._say.no_command if RUN in self._tools else self._say.no_runner
            return self._answer(f"{said.format(skill=skill)}\n\n{quoted(body, self._say)}")
        return self._answer(lacking(ready, skill, self._say)) if ready.missing else Run(skill, ready.command)

    def _after_run(self) -> Action:
        runs = self._turn.runs
        skill = string(runs[-1].arguments, "skill")
        again = self._again(skill, well=outcome(runs[-1]).succeeded) if len(runs) < MOST_RUNS else None
        if again is not None and not again.missing:
            return Run(skill, again.command)
        said = [report(run, self._say, self._turn.text) for run in runs]
        return self._answer("\n\n".join([*said, *self._undone(skill)]))

    def _again(self, skill: str, *, well: bool) -> Filled | None:
        """The same for the next file; or, when the command that the words asked for failed, the first of the skill."""
        if well:
            return self._ready(skill, number=1) if self._repeats(skill) and len(self._files) > 1 else None
        commands = self._commands(skill)
        if not commands or self._best(skill) == commands[0]:
            return None
        return self._filled(commands[0], skill, self._files)

    def _commands(self, skill: str) -> list[Documented]:
        return documented(self._turn.bodies.get(skill, ""))

    def _words(self, skill: str) -> str:
        """The request without the names of the skill and of files, which say nothing about what is to be done."""
        return without_files(without_name(self._turn.text, skill), self._files)

    def _best(self, skill: str) -> Documented | None:
        return best(self._commands(skill), self._words(skill), files=bool(self._files))

    def _ready(self, skill: str, number: int = 0) -> Filled | None:
        """The command that fits the request best, for the file of this number if it takes one at a time."""
        chosen = self._best(skill)
        if chosen is None:
            return None
        ready = self._filled(chosen, skill, self._files)
        if not ready.repeats or len(self._files) == 1:
            return ready
        one = [*ready.used, *(name for name in self._files if name not in ready.used)][number]
        return self._filled(chosen, skill, (one,), label=PurePosixPath(one).stem)

    def _filled(self, chosen: Documented, skill: str, files: Sequence[str], *, label: str = "") -> Filled:
        return filled(chosen.command, files, without_name(self._turn.text, skill), label=label)

    def _repeats(self, skill: str) -> bool:
        ready = self._ready(skill)
        return ready is not None and ready.repeats

    def _undone(self, skill: str) -> list[str]:
        left = self._files[MOST_RUNS:] if self._repeats(skill) else ()
        return [self._say.undone.format(files=", ".join(left))] if left else []

    def _answer(self, text: str) -> Say:
        return Say(signed(text, self._say, self.route, ran=bool(self._turn.runs)))
