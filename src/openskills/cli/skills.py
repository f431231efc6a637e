"""Which skills a command is about: those of the paths it was given, or those that an agent would find here."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from openskills.cli.consent import ask_about
from openskills.cli.progress import Waiting
from openskills.errors import InvalidArgument
from openskills.settings import Settings

if TYPE_CHECKING:
    from openskills.catalog.catalog import Catalog
    from openskills.catalog.root import Source


def settings_of(context: typer.Context) -> Settings:
    """The settings that the door has read."""
    return cast("Settings", context.obj)


def open_catalog(paths: Sequence[str], settings: Settings, *, trusted: bool = False, asking: bool = True) -> "Catalog":
    """The catalog of `paths`; without any, that of the standard places and `SKILLS_ROOT`, which wins.

    At a terminal a person is asked about a project's skills that nobody has agreed to, unless `asking` is False.
    `trusted` agrees for this time.
    """
    from openskills.catalog.catalog import Catalog

    sources = _named(paths, settings) if paths else _usual(settings, trusted=trusted, asking=asking)
    with Waiting("looking for skills") as progress:
        return Catalog(sources, settings, progress)


def _named(paths: Sequence[str], settings: Settings) -> "list[Source]":
    from openskills.catalog.fetch.sources import parse_source

    return [parse_source(path, settings) for path in paths]


def _usual(settings: Settings, *, trusted: bool, asking: bool) -> "list[Source]":
    from openskills.catalog.standard import HomeSource, project_source

    sources: list[Source] = [HomeSource(settings.home)]
    project = project_source(Path.cwd(), settings, trusted=trusted)
    # In the home directory itself the two are the same places.
    if project.project != settings.home:
        if asking and not trusted and sys.stdin.isatty() and sys.stderr.isatty():
            ask_about(project, settings)
        sources.append(project)
    if settings.skills_root:
        sources.append(_root(settings.skills_root, settings))
    return sources


def _root(text: str, settings: Settings) -> "Source":
    from openskills.catalog.sources import parse_source

    try:
        return parse_source(text, settings)
    except InvalidArgument as error:
        raise InvalidArgument("SKILLS_ROOT", error.message) from None
