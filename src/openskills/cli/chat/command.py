"""`openskills chat`: the command and its options; the conversation itself is in `loop`, which is imported on use."""

import sys
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from openskills.cli.output import can_ask
from openskills.cli.parameters import Executor, GrantOptions, Many, Skills, Text, argument, get_settings, option
from openskills.cli.sessions import complete_session
from openskills.cli.skills import open_catalog, report_sources
from openskills.cli.trust import collect_grants
from openskills.errors import InvalidArgument
from openskills.settings import Settings

MAX_PIPED_BYTES = 1024 * 1024


def complete_model(context: typer.Context, incomplete: str) -> list[str]:
    """Shell completion for names of models: examples, that of the settings, and those of local servers."""
    from openskills.cli.doctor import find_model_servers

    settings = get_settings(context)
    names = ["rule", "openai/gpt-5", "anthropic/claude-opus-5-5", *filter(None, [settings.model])]
    for server, _, models in find_model_servers(settings):
        names += [f"{'ollama' if server == 'Ollama' else 'openai'}/{model}" for model in models]
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The options of a chat other than the message, the skills and the grants."""

    session: Annotated[
        Text, option("NAME", "Continue the conversation of this name, or start it.", autocompletion=complete_session)
    ] = None
    model: Annotated[
        Text,
        option(
            "NAME",
            "openai/NAME, anthropic/NAME, ollama/NAME, or rule, which works offline and is not an LLM.",
            autocompletion=complete_model,
        ),
    ] = None
    executor: Executor = None
    store: Annotated[Text, option("URL", "The session store.", show_default=False)] = None
    artifact_store: Annotated[Text, option("URL", "The artifact store.", show_default=False)] = None
    ask: Annotated[bool, typer.Option("--ask", help="Ask before every command.")] = False
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Run commands that are not isolated without asking.")] = False
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show full tool arguments and results.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print events as JSON, one per line.")] = False


def chat(
    settings: Settings,
    options: ChatOptions,
    given: GrantOptions,
    message: Annotated[Many, argument("MESSAGE", "A single message; print its answer and exit.")] = None,
    base_url: Annotated[Text, option("URL", "The model's server, such as http://localhost:8000/v1.")] = None,
    skills: Skills = None,
    attach: Annotated[Many, option("FILE", "A file to send with the first message; - is stdin.")] = None,
) -> None:
    """Talk to an agent that finds, loads and runs skills.

    Without MESSAGE it reads messages from the terminal (type /help there), or one message from a pipe. The conversation
    is stored and its name is printed; continue it with --session.

    Packages that a skill declares are installed after you agreed (--install ask), once for each version of the skill;
    --with adds others.

    --network, --secret, --env and --timeout apply to the commands of all skills, and override the project file. When a
    skill declares variables that you did not grant, you are asked once.

    Isolated commands run without confirmation. Commands that are not isolated need your confirmation, and are denied
    without a terminal. --ask always asks, --yes never does.

    Examples:
      openskills chat
      openskills chat "What is in it?" --attach sales.csv --model openai/gpt-5
      openskills chat --model ollama/qwen3 --skills skills/
      openskills chat --model openai/qwen3 --base-url http://localhost:8000/v1
      openskills chat --session chat-20260131-120000-3f2a
      git log | openskills chat "Summarise these commits" --attach -

    Exit codes: 0 done, 1 no answer, 2 wrong usage.
    """
    from openskills.cli.chat.loop import open_chat, run_chat

    if base_url is not None:
        servers = dict.fromkeys(("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST"), base_url)
        settings = replace(settings, environment={**settings.environment, **servers})
    if options.ask and options.yes:
        raise InvalidArgument("--yes", "cannot be combined with --ask; choose one")
    words = _read_message(message, attach or [])
    if words is None and options.as_json:
        raise InvalidArgument("--json", "needs a message as an argument or on stdin")
    grants = collect_grants(given.parse(settings), given, settings)
    install = given.parse_install(can_ask=not options.as_json and can_ask())
    # A skill that requires a variable is not hidden if the variable is granted.
    granted = {name: value for entry in grants.values() for name, value in entry.environment.items()}
    with_grants = replace(settings, environment={**granted, **settings.environment})
    catalog = open_catalog(skills or (), with_grants, trusted=given.trust, asking=not options.as_json)
    report_sources(catalog.snapshot)
    if skills and not catalog.skills:
        raise InvalidArgument("--skills", f"no usable skill in {', '.join(skills)}; see `openskills list {skills[0]}`")
    run_chat(open_chat(options, catalog, settings, grants, install), words, attach or [])


def _read_message(message: Many, attach: list[str]) -> str | None:
    """The message from the arguments or a pipe; None in interactive mode."""
    if message:
        text = " ".join(message)
    elif sys.stdin.isatty():
        return None
    elif "-" in attach:
        raise InvalidArgument(
            "--attach", "stdin cannot be both the message and an attachment; give the message as MESSAGE"
        )
    else:
        text = sys.stdin.buffer.read(MAX_PIPED_BYTES + 1).decode("utf-8", "replace")
    if len(text) > MAX_PIPED_BYTES:
        raise InvalidArgument("MESSAGE", f"longer than {MAX_PIPED_BYTES:,} characters; send it with --attach -")
    if not text.strip():
        raise InvalidArgument("MESSAGE", "must not be empty")
    return text.strip()
