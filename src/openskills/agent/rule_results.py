"""What a run came to, as a person is told about it. Pure; any text is taken."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from openskills.agent.rule_arguments import assumed
from openskills.agent.rule_phrases import Phrases
from openskills.agent.rule_turn import Step
from openskills.prompt.messages import items, json_object, string

_MOST_LINES = 24
_MOST_CHARACTERS = 2_000
_READABLE = ("text/plain", "text/markdown", "text/csv", "application/json")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of `skill_run`: its data, or what kept the command from being run."""

    data: Mapping[str, object]
    refused: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether the command ended well."""
        return not self.refused and self.data.get("exit_code") == 0 and self.data.get("timed_out") is not True


def outcome(step: Step) -> Outcome:
    """What the result of a call says."""
    text = (step.result or "").strip()
    data = json_object(text)
    return Outcome(data) if "exit_code" in data else Outcome({}, text.removeprefix("error:").strip() or "?")


def report(step: Step, say: Phrases, request: str = "") -> str:
    """What was run, what it printed or wrote, where its files are, or why it failed.

    What the command has from an example of the skill and not from the `request` is said.
    """
    found = outcome(step)
    about = {"skill": string(step.arguments, "skill"), "command": _line(string(step.arguments, "command"))}
    if found.refused:
        return f"{say.tried.format(**about)}\n\n{say.refused.format(why=found.refused)}"
    isolation, took = string(found.data, "isolation"), found.data.get("duration_ms")
    shown = say.not_isolated if isolation == "none" else isolation
    where = say.where.format(isolation=shown, milliseconds=took) if isolation else ""
    values = ", ".join(assumed(about["command"], request))
    parts = [say.ran.format(**about, where=where), say.assumed.format(values=values) if values else ""]
    parts += (_well if found.succeeded else _badly)(found.data, say)
    return "\n\n".join(part for part in parts if part)


def quoted(text: str, say: Phrases) -> str:
    """The beginning of a text, indented: a block that nobody takes for code to run."""
    lines = text[:_MOST_CHARACTERS].strip("\n").split("\n")
    shown = [f"    {line}".rstrip() for line in lines[:_MOST_LINES]]
    left = len(text.strip("\n").split("\n")) - len(shown)
    return "\n".join([*shown, *([f"    {say.more_lines.format(count=left)}"] if left > 0 else [])])


def _well(data: Mapping[str, object], say: Phrases) -> Iterator[str]:
    primary = json_object(data.get("primary_output"))
    content, stdout = string(primary, "content"), string(data, "stdout").strip("\n")
    if content and (string(primary, "mime_type").split(";")[0] in _READABLE or not stdout):
        yield f"{say.wrote.format(name=string(primary, 'name'))}\n\n{quoted(content, say)}"
    elif stdout:
        yield f"{say.printed}\n\n{quoted(stdout, say)}"
    elif not _refs(data, "output_files"):
        yield say.nothing_printed
    yield from _files(data, say)


def _badly(data: Mapping[str, object], say: Phrases) -> Iterator[str]:
    yield say.timed_out if data.get("timed_out") is True else say.exit_code.format(code=data.get("exit_code"))
    told = string(data, "stderr").strip("\n") or string(data, "stdout").strip("\n")
    warnings = [text for text in items(data.get("warnings")) if isinstance(text, str)]
    if told or warnings:
        yield quoted("\n".join([*([told] if told else []), *warnings]), say)
    yield from _files(data, say)
    yield say.again


def _files(data: Mapping[str, object], say: Phrases) -> Iterator[str]:
    kept, made = _refs(data, "artifact_files"), _refs(data, "output_files")
    if kept:
        yield say.kept.format(refs=", ".join(kept))
    elif made:
        yield say.files.format(refs=", ".join(made))


def _refs(data: Mapping[str, object], name: str) -> list[str]:
    return [ref for one in cast("list[object]", items(data.get(name))) if (ref := string(one, "ref"))]


def _line(text: str) -> str:
    return " ".join(text.split())
