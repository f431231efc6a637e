"""From the name of a tool to the tool."""

from collections.abc import Mapping

from openskills.tools.docs import SKILL_LIST_DOCS, SKILL_SELECT_DOCS
from openskills.tools.interactive import SKILL_EXEC, SKILL_KILL_SESSION, SKILL_POLL_SESSION, SKILL_WRITE_STDIN
from openskills.tools.list_files import LIST_FILES
from openskills.tools.load import SKILL_LOAD
from openskills.tools.read_file import READ_FILE
from openskills.tools.run import SKILL_RUN
from openskills.tools.search import SKILL_SEARCH
from openskills.tools.search_files import SEARCH_FILES
from openskills.tools.tool import AnyTool
from openskills.tools.unload import SKILL_UNLOAD
from openskills.tools.write_file import WRITE_FILE

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
