"""`openskills export`: write skills as a static site that other clients can install from."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from openskills.cli.output import CliProgress, escape_line, pluralize, say, warn
from openskills.cli.parameters import Json, SourceOptions, Text, argument, option
from openskills.cli.skills import display_path, open_sources, report_sources
from openskills.errors import InvalidArgument, InvalidSkill, SkillError
from openskills.filesystem import replace_file
from openskills.paths import parse_relative
from openskills.settings import Settings, parse_base_url

if TYPE_CHECKING:
    from openskills.catalog.publish import Publication, PublishedSkill
    from openskills.catalog.sources.archive import FileContent

RECORD = ".openskills-export.json"
"""The file that says what was written, so that nothing else is ever overwritten or removed."""
_DEFAULT_NAME = "openskills"


def export(
    settings: Settings,
    directory: Annotated[str, argument("DIR", "The directory to write to; created if it is missing.")],
    sources: SourceOptions,
    name: Annotated[str, option("NAME", "The name of the marketplace and of the plugin.")] = _DEFAULT_NAME,
    url: Annotated[
        Text, option("URL", "Where DIR will be served: also write a marketplace.json with archives.")
    ] = None,
    mcp_url: Annotated[Text, option("URL", "Add this MCP server to the plugin with all skills.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Write nothing if a skill has to be left out.")] = False,
    as_json: Json = False,
) -> None:
    """Write skills as files that other clients can install from: a web server or a git repository is enough.

    DIR gets an index for `npx skills` (.well-known/agent-skills/index.json, with archives and digests; the older form
    is in .well-known/skills), a marketplace for Claude Code and Codex (.claude-plugin/marketplace.json) and an Agent
    Plugin for each skill and for all of them (plugins/). Skills in a sub-folder of PATH belong to the team of that
    name, which has an index of its own: TEAM/.well-known/agent-skills/index.json.

    Skills that clients would refuse are left out, and the reason is printed: an invalid SKILL.md, metadata.internal,
    links that lead out of the skill, more than 1,000 files or 50 MiB. The same skills always give the same bytes. A
    second export updates DIR: it removes what it wrote before and is not needed now. Files that others wrote or changed
    are never touched: if they are in the way, nothing is written.

    Examples:
      openskills export site skills/
      openskills export site skills/ --url https://skills.example.com
      npx skills add https://skills.example.com
      claude plugin marketplace add ./site

    Exit codes: 0 done, 1 nothing to publish or a skill is left out with --strict, 2 wrong usage or files in the way.
    """
    from openskills.catalog.publish import SkillPublisher
    from openskills.catalog.sources.plugin import PLUGIN_NAME

    if PLUGIN_NAME.fullmatch(name) is None:
        raise InvalidArgument("--name", f"invalid name {name[:80]!r}: use up to 64 lowercase letters, digits, - and .")
    url = None if url is None else parse_base_url(url, "--url")
    mcp_url = None if mcp_url is None else parse_base_url(mcp_url, "--mcp-url")
    target = ExportDirectory.open(Path(directory))
    catalog = open_sources(settings, sources)
    report_sources(catalog.snapshot)
    with CliProgress("exporting skills") as progress:
        found = SkillPublisher(catalog).collect(progress)
        _check_not_inside(target.path, found)
        for one in () if as_json else found.left_out:
            warn(("left out", "yellow"), ": ", (escape_line(one.name), "bold cyan"), f": {escape_line(one.reason)}")
        if not found.skills or (strict and found.left_out):
            reason = "a skill has to be left out" if found.skills else "no skill can be published"
            raise InvalidSkill(f"nothing was written: {reason}")
        target.write(_collect_files(found, name, url, mcp_url or ""), progress)
    counts = {"written": target.written, "unchanged": target.unchanged, "removed": target.removed}
    result = {
        "directory": str(target.path),
        "skills": [{"name": one.name, "team": one.team, "digest": one.digest} for one in found.skills.values()],
        "left_out": [{"name": one.name, "path": one.path, "reason": one.reason} for one in found.left_out],
        "files": counts,
    }
    left_out = f", {len(found.left_out):,} left out" if found.left_out else ""
    files = ", ".join(f"{count:,} {what}" for what, count in counts.items())
    exported = f"exported {pluralize(len(found.skills), 'skill')} to {display_path(str(target.path))}"
    say((exported, "bold green"), f"{left_out} (files: {files})", json=as_json and result)


def _check_not_inside(directory: Path, found: "Publication") -> None:
    """The next export would find its own copies."""
    base = os.path.realpath(directory)
    inside = [one for one in found.skills.values() if os.path.realpath(one.skill.directory).startswith(base + os.sep)]
    if inside:
        place = display_path(inside[0].skill.directory)
        raise InvalidArgument("DIR", f"contains the skill {place}; export to a directory that is not part of PATH")


def _collect_files(found: "Publication", name: str, url: str | None, mcp_url: str) -> "list[FileContent]":
    """All files of the export. Indexes are last, so that they never name a file that is not there yet."""
    from openskills.catalog import publish

    skills = list(found.skills.values())
    contents = {one.name: publish.read_published(one) for one in skills}
    files: list[FileContent] = []
    indexes: dict[str, object] = {}
    for team in ("", *found.teams):
        members = [one for one in skills if one.team == (team or one.team)]
        place = f"{team}/.well-known" if team else ".well-known"
        files += _list_index_files(place, members, contents)
        indexes[f"{place}/agent-skills/index.json"] = publish.build_index(members)
        indexes[f"{place}/skills/index.json"] = publish.build_old_index(members)
    plugins = publish.list_plugins(name, skills)
    archives: dict[str, object] = {}
    for plugin, members in plugins.items():
        content = publish.build_plugin(plugin, members, mcp_url if plugin == name else "")
        files += (file.under(f"plugins/{plugin}") for file in content)
        if url is not None:
            data = publish.build_archive(content)
            files.append(publish.FileContent(f"plugins/{plugin}.zip", data))
            digest = hashlib.sha256(data).hexdigest()
            archives[plugin] = {"source": "archive", "url": f"{url}/plugins/{plugin}.zip", "sha256": digest}
    folders = {plugin: f"./plugins/{plugin}" for plugin in plugins}
    indexes[".claude-plugin/marketplace.json"] = publish.build_marketplace(name, plugins, folders)
    if url is not None:
        indexes["marketplace.json"] = publish.build_marketplace(name, plugins, archives)
    return [*files, *(publish.FileContent(path, publish.to_json(value)) for path, value in indexes.items())]


def _list_index_files(
    place: str, skills: "Sequence[PublishedSkill]", contents: "Mapping[str, Sequence[FileContent]]"
) -> "list[FileContent]":
    from openskills.catalog.publish import build_archive
    from openskills.catalog.sources.archive import FileContent

    files: list[FileContent] = []
    for one in skills:
        content = contents[one.name]
        files += (file.under(f"{place}/skills/{one.name}") for file in content)
        if one.is_single_file:
            files += (file.under(f"{place}/agent-skills/{one.name}") for file in content)
        else:
            files.append(FileContent(f"{place}/agent-skills/{one.name}.zip", build_archive(content)))
    return files


@dataclass(slots=True)
class ExportDirectory:
    """The directory of an export, and the digests of the files that exports have written there."""

    path: Path
    known: Mapping[str, str] = field(default_factory=dict[str, str])
    written: int = 0
    unchanged: int = 0
    removed: int = 0

    @classmethod
    def open(cls, path: Path) -> "ExportDirectory":
        """Raises `InvalidArgument` for something that is not a directory, or has a record that cannot be read."""
        if path.exists() and not path.is_dir():
            raise InvalidArgument("DIR", f"{path} is not a directory")
        record = path / RECORD
        if not record.exists():
            return cls(path)
        try:
            return cls(path, _parse_record(json.loads(record.read_bytes())))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, SkillError):
            raise InvalidArgument("DIR", f"{record} is damaged; remove it and the files of the last export") from None

    def write(self, files: "Sequence[FileContent]", progress: CliProgress) -> None:
        """Write these files and remove those of the last export that are not among them.

        Raises `InvalidArgument`, and changes nothing, if others wrote or changed a file that is in the way.
        """
        wanted = {file.path: hashlib.sha256(file.data).hexdigest() for file in files}
        foreign = [path for path, digest in wanted.items() if not self._can_replace(path, digest)]
        if foreign:
            shown = ", ".join(map(repr, foreign[:3])) + (f" and {len(foreign) - 3:,} more" if len(foreign) > 3 else "")
            message = f"{display_path(str(self.path))} has files that `openskills export` did not write: {shown}"
            raise InvalidArgument("DIR", f"{message}; remove them or choose another directory")
        ours = (path for path in self.known if path not in wanted and self._digest(path) is not None)
        stale = [path for path in ours if self._can_replace(path, "")]
        self.path.mkdir(parents=True, exist_ok=True)
        # If this process is killed, the next one knows what is its own.
        self._save({**self.known, **wanted})
        for number, file in enumerate(files):
            progress("writing files", number, len(files))
            place = self.path / file.path
            if self._digest(file.path) == wanted[file.path] and os.access(place, os.X_OK) == file.executable:
                self.unchanged += 1
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            replace_file(place, file.data, mode=0o755 if file.executable else 0o644)
            self.written += 1
        for path in stale:
            self._remove(path)
        self._save(wanted)

    def _save(self, files: Mapping[str, str]) -> None:
        record = {"version": 1, "files": dict(sorted(files.items()))}
        replace_file(self.path / RECORD, json.dumps(record, indent=1).encode() + b"\n", mode=0o644)

    def _can_replace(self, path: str, digest: str) -> bool:
        parts = Path(path).parts
        for count in range(1, len(parts)):
            folder = self.path.joinpath(*parts[:count])
            # A link could lead anywhere.
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                return False
        found = self._digest(path)
        return found is None or found in (digest, self.known.get(path))

    def _digest(self, path: str) -> str | None:
        """The digest of a file; empty for something else, None if there is nothing."""
        place = self.path / path
        if not os.path.lexists(place):
            return None
        return "" if place.is_symlink() or not place.is_file() else hashlib.sha256(place.read_bytes()).hexdigest()

    def _remove(self, path: str) -> None:
        place = self.path / path
        place.unlink()
        self.removed += 1
        for folder in list(place.parents)[: len(Path(path).parts) - 1]:
            if any(folder.iterdir()):
                break
            folder.rmdir()


def _parse_record(value: Any) -> dict[str, str]:
    """The files of a record. Its paths are checked: somebody else may have written it."""
    if value["version"] != 1:
        raise InvalidArgument("version", "must be 1")
    found = cast("Mapping[str, object]", value["files"])
    return {str(parse_relative(path)): str(digest) for path, digest in found.items()}
