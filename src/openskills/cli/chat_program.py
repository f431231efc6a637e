"""From the options of `openskills chat` to a conversation, and its end."""

import shlex

from openskills.catalog.catalog import Catalog
from openskills.cli.chat_loop import converse, ending_on_signals, once
from openskills.cli.chat_opening import ChatWishes, opened
from openskills.cli.output import warn
from openskills.settings import Settings
from openskills.sync import run


def chat_with(catalog: Catalog, wishes: ChatWishes, settings: Settings, message: str | None, paths: list[str]) -> None:
    """Talk until the end; with a message, only about that. Runs on the loop of `sync.run`, which can be interrupted."""
    ending_on_signals()
    conversation = opened(wishes, catalog, settings)
    talk = run(conversation.__aenter__())
    try:
        for path in paths:
            talk.attach(path)
        if message is None:
            warn("/help shows what you can do; Ctrl-D ends the chat")
            converse(talk)
            warn(f"openskills chat --session {shlex.quote(talk.session.scope.session)} goes on with it")
        else:
            once(talk, message)
    finally:
        run(conversation.__aexit__(None, None, None))
