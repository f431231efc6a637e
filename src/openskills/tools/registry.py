"""All tools by name."""

from collections.abc import Mapping

from openskills.tools.files import LIST_FILES, READ_FILE, WRITE_FILE
from openskills.tools.interactive import SKILL_EXEC, SKILL_KILL_SESSION, SKILL_POLL_SESSION, SKILL_WRITE_STDIN
from openskills.tools.run import SKILL_RUN
from openskills.tools.search_files import SEARCH_FILES
from openskills.tools.skills import SKILL_LIST_DOCS, SKILL_LOAD, SKILL_SEARCH, SKILL_SELECT_DOCS, SKILL_UNLOAD
from openskills.tools.tool import AnyTool

TOOLS: Mapping[str, AnyTool] = {
    tool.name: tool
    for tool in (
        SKILL_LOAD,
        SKILL_SELECT_DOCS,
        SKILL_LIST_DOCS,
        SKILL_UNLOAD,
        SKILL_SEARCH,
        SKILL_RUN,
        SKILL_EXEC,
        SKILL_WRITE_STDIN,
        SKILL_POLL_SESSION,
        SKILL_KILL_SESSION,
        READ_FILE,
        LIST_FILES,
        SEARCH_FILES,
        WRITE_FILE,
    )
}
