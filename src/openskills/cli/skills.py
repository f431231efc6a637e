"""Which skills a command is about: those of the paths it was given, or those that an agent would find here."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from openskills.cli.consent import ask_about
from openskills.cli.progress import Waiting
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
    from openskills.catalog.standard import ProjectSource, standard_sources

    sources = standard_sources(Path.cwd(), settings, trusted=trusted)
    if asking and not trusted and sys.stdin.isatty() and sys.stderr.isatty():
        for source in sources:
            if isinstance(source, ProjectSource):
                ask_about(source, settings)
    return list(sources)
