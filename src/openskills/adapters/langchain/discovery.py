"""Discovery of the skills of a backend, and the list of skills in the system prompt."""

import logging
import operator
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal, TypeAlias

from deepagents.backends.protocol import FILE_NOT_FOUND, FileDownloadResponse

from openskills.adapters.langchain.backend_io import (
    LocalFile,
    LocalScan,
    Stamp,
    Steps,
    download_files,
    list_directory,
    scan_source,
)
from openskills.adapters.langchain.messages import compute_digest, to_tool_names
from openskills.adapters.langchain.state import (
    ResourceMetadata,
    SkillMetadata,
    get_extension,
    parse_metadata,
    summarise_resources,
)

logger = logging.getLogger(__name__)

_MTIME_GRANULARITY = 100_000_000
"""Nanoseconds in which a file can change again without its modification time changing."""


_KnownSkill: TypeAlias = tuple[Stamp | str, SkillMetadata | None]
"""The stamp or digest of a file, and the metadata parsed from it."""


@dataclass(slots=True)
class BackendDiscovery:
    """Finds skills, and caches the metadata of files that have not changed.

    Returns the same list object as long as nothing changes, so that callers can cache by identity.
    """

    sources: Sequence[str]
    extended: bool = False
    _known: dict[str, _KnownSkill] = field(default_factory=dict[str, _KnownSkill])
    _last: list[SkillMetadata] = field(default_factory=list[SkillMetadata])

    def find_skills(self, *, tolerant: bool = False) -> Steps[tuple[list[SkillMetadata], list[str]]]:
        """All skills (later sources win) and errors of sources that could not be read.

        If `tolerant`, an exception of the backend counts as such an error.
        """
        found: dict[str, SkillMetadata] = {}
        errors: list[str] = []
        for source in self.sources:
            skills, error = yield from self._find_in_source(source, tolerant)
            found.update((skill["name"], skill) for skill in skills)
            if error is not None:
                errors.append(f"Cannot load skills from '{source}': {error}")
        if errors:
            logger.warning("Skills load errors: %s", errors)
        logger.info("Discovered %d skills from %d sources", len(found), len(self.sources))
        # Several threads may run this at once, so compare with a local reference.
        skills, last = list(found.values()), self._last
        if len(skills) == len(last) and all(map(operator.is_, skills, last)):
            return last, errors
        self._last = skills
        return skills, errors

    def _find_in_source(self, source: str, tolerant: bool) -> Steps[tuple[list[SkillMetadata], str | None]]:
        local = yield from scan_source(source, self._read_local)
        if local is None:
            entries, error = yield from list_directory(source, tolerant=tolerant)
            directories = (str(entry["path"]) for entry in entries if entry.get("is_dir"))
            paths = [directory.replace("\\", "/").rstrip("/") + "/SKILL.md" for directory in directories]
            return (yield from self._download_skills(paths, tolerant)), error
        here, others = local
        skills = [*here, *(yield from self._download_skills(others, tolerant))]
        return sorted(skills, key=lambda skill: skill["path"]), None

    def _download_skills(self, paths: Sequence[str], tolerant: bool) -> Steps[list[SkillMetadata]]:
        answers = yield from download_files(paths, tolerant=tolerant)
        found = (self._skill_from_response(path, answer) for path, answer in zip(paths, answers, strict=True))
        return [skill for skill in found if skill is not None]

    def _skill_from_response(self, path: str, answer: FileDownloadResponse) -> SkillMetadata | None:
        if answer.error or answer.content is None:
            # Directories without a SKILL.md are ignored silently.
            if answer.error != FILE_NOT_FOUND:
                logger.warning("Cannot load SKILL.md at %s: %s; skipping", path, answer.error or "no content")
            return None
        known, digest = self._known.get(path), compute_digest(answer.content)
        if known is not None and known[0] == digest:
            return known[1]
        skill = parse_metadata(answer.content, path, PurePosixPath(path).parent.name, extended=self.extended)
        self._known[path] = (digest, skill)
        return skill

    def _read_local(self, local: LocalScan) -> tuple[list[SkillMetadata], tuple[str, ...]]:
        """The skills of a directory, and the paths to get from the backend."""
        found = (self._skill_from_file(file) for file in local.files)
        return [skill for skill in found if skill is not None], local.others

    def _skill_from_file(self, file: LocalFile) -> SkillMetadata | None:
        known = self._known.get(file.path)
        if known is not None and known[0] == file.stamp:
            return known[1]
        content = file.read()
        if content is None:
            logger.warning("Cannot load SKILL.md at %s: not readable; skipping", file.path)
            return None
        skill = parse_metadata(content, file.path, file.directory, extended=self.extended)
        if time.time_ns() - file.stamp[2] > _MTIME_GRANULARITY:
            self._known[file.path] = (file.stamp, skill)
        return skill


Listing = Literal["marked", "stable"]
"""`marked` shows in the list which skills are loaded; `stable` never changes, for prompt caches."""


# Skills are untrusted: their fields must not look like another entry, or like our own text.
_LOADED = re.compile(r"\[\s*loaded\s*\]", re.IGNORECASE)


def to_one_line(text: str) -> str:
    """A field of a skill on one line, without our own markers."""
    return _LOADED.sub("(loaded)", " ".join(text.split())).replace("`", "'")


def format_skills_list(
    skills: Sequence[SkillMetadata],
    loaded: Collection[str],
    resources: Mapping[str, Sequence[ResourceMetadata]],
    *,
    hints: bool = False,
    tools: Collection[str] = (),
) -> str:
    """The list of skills for the prompt: for each its description, and how to load it or its resources.

    Only those of `tools` are recommended, if it is not empty, and tools that the skill brings along.
    """
    names = frozenset(loaded)
    lines: list[str] = []
    for skill in skills:
        lines += _format_entry(skill, skill["name"] in names, resources.get(skill["name"], ()), hints, tools)
    return "\n".join(lines)


def _format_entry(
    skill: SkillMetadata, is_loaded: bool, resources: Sequence[ResourceMetadata], hints: bool, tools: Collection[str]
) -> list[str]:
    name, path = to_one_line(skill["name"]), to_one_line(skill["path"])
    manual = " (Manual only)" if hints and get_extension(skill, "disable_model_invocation") else ""
    state = f"{' [Loaded]' if is_loaded else ''}{manual}"
    lines = [f"- **{name.replace('*', '')}**{state}: {to_one_line(skill['description'])}{_format_annotations(skill)}"]
    brought = skill["metadata"].get("include_tools", "").split()
    known = [one for one in skill["allowed_tools"] if not tools or {*to_tool_names(one)} & {*tools, *brought}]
    if known:
        lines.append(f"  -> Recommended tools: {', '.join(map(to_one_line, known))}")
    if is_loaded:
        if resources:
            lines.append(f"  -> Resources: {summarise_resources(resources)}")
    elif manual:
        lines.append(f"  -> Do not load this skill yourself; the user starts it (`{path}`)")
    else:
        hint = get_extension(skill, "argument_hint") if hints else None
        more = f', args="{_escape_quotes(str(hint))}"' if hint else ""
        lines.append(f'  -> Use `load_skill("{_escape_quotes(name)}"{more})` to read full instructions (`{path}`)')
    return lines


def _format_annotations(skill: SkillMetadata) -> str:
    license_, needs = skill.get("license"), skill.get("compatibility")
    parts = [f"License: {to_one_line(license_)}"] if license_ else []
    if needs:
        parts.append(f"Compatibility: {to_one_line(needs)}")
    return f" ({', '.join(parts)})" if parts else ""


def _escape_quotes(text: str) -> str:
    return to_one_line(text).replace('"', "'")
