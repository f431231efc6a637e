"""What a model is shown of skills where no middleware places texts: in the results themselves, and once at the top."""

import asyncio

from openskills.errors import SkillError
from openskills.prompt.loaded import Block, rendered
from openskills.runtime.session import SkillSession
from openskills.session.changes import Change, DocsChosen, Loaded
from openskills.tools.read_on import read_on
from openskills.tools.result import ToolResult
from openskills.tools.shelf import Shelf


def system_text(session: SkillSession) -> str:
    """The list of skills and how to use them, for the system message of an agent that has `tools(session)`.

    Ask for it when a conversation begins.
    """
    sent = session.context([])
    return str(sent[0]["content"]) if sent else ""


class ResultTexts:
    """Puts the texts that a call asked for into its result."""

    def __init__(self, session: SkillSession) -> None:
        names = [str(tool["name"]) for tool in session.tools("mcp")]
        self._session = session
        self._read_on = read_on(names)

    async def of(self, result: ToolResult) -> str:
        """The text of a result, and below it what was loaded or selected."""
        if result.error is not None or not result.changes:
            return result.text
        return await asyncio.to_thread(self._extended, result)

    def _extended(self, result: ToolResult) -> str:
        # A shelf of its own: what was asked for again is shown again, since nobody knows what the model still sees.
        shelf = Shelf(self._read_on, self._session.options.budget, self._session.options.count)
        blocks = [block for change in result.changes if (block := self._block(shelf, change)) is not None]
        return rendered((result.text, *blocks))

    def _block(self, shelf: Shelf, change: Change) -> Block | None:
        if not isinstance(change, Loaded | DocsChosen):
            return None
        try:
            skill = self._session.skill(change.skill)
            body = shelf.load(skill) if isinstance(change, Loaded) else None
            docs = shelf.select(skill, change.docs or ())
        except SkillError:
            # The call has just read it: it went in between, and the next call of the model will say so.
            return None
        return Block(skill.name, body, docs) if body or docs else None
