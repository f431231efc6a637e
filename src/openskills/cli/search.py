"""`openskills search`: the skills that fit a few words."""

from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.listing import Json, Paths, Trust, leave_if_unreachable, report_places
from openskills.cli.output import plain, say_json, warn
from openskills.cli.skills import open_catalog, settings_of
from openskills.cli.table import Column, show_table

if TYPE_CHECKING:
    from openskills.catalog.search import Hit
    from openskills.catalog.skill import Skill


def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A few words, in English or Chinese.")],
    paths: Paths = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many skills at most.")] = 10,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Find skills by what they do, best first.

    Looks at names, keywords and descriptions of the skills that a model may see; names may be misspelt.

    Examples:
      openskills search "merge two pdfs"
      openskills search 表格 skills/ --limit 3
      openskills search invoices --json

    In a pipe each skill is one line: name, description and source, with tabs between.
    """
    snapshot = open_catalog(paths or (), settings_of(context), trusted=trust, asking=not as_json).snapshot
    hits = snapshot.search(query, limit)
    if as_json:
        say_json({"skills": [_json(hit) for hit in hits]})
    else:
        columns = (Column("name", "bold cyan"), Column("description", wide=True), Column("source", "dim"))
        show_table(columns, [_cells(hit.skill) for hit in hits])
        if not hits:
            warn(f"none of {len(snapshot.skills):,} visible skills fits {plain(query)!r}")
    # What is wrong with single skills is for `list`; a place that is missing explains a missing result.
    report_places(snapshot)
    leave_if_unreachable(snapshot)


def _json(hit: "Hit") -> dict[str, object]:
    skill = hit.skill
    return {
        "name": skill.name,
        "description": skill.description,
        "location": skill.location,
        "source": skill.source,
        "score": round(hit.score, 4),
    }


def _cells(skill: "Skill") -> tuple[str, ...]:
    return (plain(skill.name), plain(skill.description), plain(skill.source))
