"""`openskills invoke`: a skill of a host, called from the shell."""

from typing import Annotated

import typer

from openskills.cli.invoke_input import read_input
from openskills.cli.invoking import Place, Wanted, manner_of, perform
from openskills.cli.listing import Json
from openskills.cli.skills import settings_of

Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="The host's address, instead of OPENSKILL_HTTP_BASE_URL.")
]
Local = Annotated[
    bool, typer.Option("--local", help="Without a host: run the skills of OPENSKILL_CLI_DIR in this process.")
]
TraceId = Annotated[str | None, typer.Option("--trace-id", metavar="ID", help="The trace id to send; else a new one.")]
Timeout = Annotated[float | None, typer.Option("--timeout", metavar="S", help="Give up after so many seconds in all.")]


def invoke(
    context: typer.Context,
    skill: Annotated[str, typer.Argument(metavar="ID", help="The id of a skill of the host, such as file_search.")],
    given: Annotated[
        str, typer.Option("--input", metavar="JSON|@FILE|-", help="The input: JSON, a file, or - for what is piped in.")
    ] = "{}",
    url: Url = None,
    stream: Annotated[
        bool | None,
        typer.Option("--stream/--no-stream", help="Show what the skill does meanwhile; done at a terminal anyway."),
    ] = None,
    trace_id: TraceId = None,
    timeout: Timeout = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option("--idempotency-key", metavar="KEY", help="Do it once, however often it is sent with this key."),
    ] = None,
    local: Local = False,
    as_json: Json = False,
) -> None:
    """Invoke a skill of a running host, and print its data.

    Output of the skill goes to stderr while it works, its data to stdout. --json prints the whole Normalized Skill
    Result; together with --stream, one line of JSON for each event, the last of them the result.

    Examples:
      openskills invoke echo --input '{"text": "hello"}'
      openskills invoke calculator --input @numbers.json --json
      echo '{"query": "openSkill"}' | openskills invoke file_search --input -

    Exit codes: 0 when the skill succeeded, 1 when it failed or no host answers, 2 for wrong usage.
    """
    place = Place(url, timeout, local)
    wanted = Wanted(skill, read_input(given), trace_id, idempotency_key, manner_of(stream, as_json=as_json))
    raise typer.Exit(perform(wanted, place, settings_of(context)))
