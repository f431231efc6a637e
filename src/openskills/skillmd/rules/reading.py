"""The faults that show before any rule is asked: in finding the file, decoding it, and reading its front matter."""

from openskills.skillmd.problem import Severity
from openskills.skillmd.rules.rule import Rule

_FILE = "specification, directory structure: a skill is a folder that contains at minimum a SKILL.md file"
_TEXT = "specification, SKILL.md format: YAML front matter followed by Markdown, both text; we read UTF-8"
_FRONT = "specification, SKILL.md format: the file must contain YAML front matter followed by Markdown content"
_GUIDE = "client guide, parsing: the opening --- is at the start of the file"
_RECOVERY = "client guide, malformed YAML: wrap the value that broke the parser in quotes and retry"
_LIMIT = "ours: bounded time and memory for a file that somebody else wrote"
_NO_ALIAS = "ours: front matter is plain data; aliases, anchors and tags are refused"

READING = (
    Rule("file-missing", Severity.ERROR, _FILE, fatal=True),
    Rule("file-name", Severity.WARNING, "client guide, discovery: a file named exactly SKILL.md"),
    Rule("file-type", Severity.ERROR, _FILE, fatal=True),
    Rule("file-unreadable", Severity.ERROR, _FILE, fatal=True),
    Rule("link-leaves-skill", Severity.ERROR, "ours: what a skill consists of lies in its folder", fatal=True),
    Rule("file-size", Severity.ERROR, _LIMIT, fatal=True),
    Rule("yaml-surrogates", Severity.ERROR, "YAML 1.2, 5.7: an escape is one character, never half of one"),
    Rule("text-encoding", Severity.ERROR, _TEXT, fatal=True),
    Rule("text-nul", Severity.ERROR, _TEXT, fatal=True),
    Rule("text-bom", Severity.WARNING, _GUIDE),
    Rule("frontmatter-first-line", Severity.WARNING, _GUIDE),
    Rule("frontmatter-missing", Severity.ERROR, _FRONT, fatal=True),
    Rule("frontmatter-unclosed", Severity.ERROR, _FRONT, fatal=True),
    Rule("frontmatter-size", Severity.ERROR, _LIMIT, fatal=True),
    Rule("text-control", Severity.ERROR, "YAML 1.2, 5.1: only printable characters", fatal=True),
    Rule("yaml-syntax", Severity.ERROR, _FRONT, fatal=True),
    Rule("frontmatter-mapping", Severity.ERROR, _FRONT, fatal=True),
    Rule("yaml-alias", Severity.ERROR, _NO_ALIAS, fatal=True),
    Rule("yaml-tag", Severity.ERROR, _NO_ALIAS, fatal=True),
    Rule("yaml-depth", Severity.ERROR, _LIMIT, fatal=True),
    Rule("yaml-keys", Severity.ERROR, _LIMIT, fatal=True),
    Rule("yaml-tab", Severity.ERROR, "YAML 1.2, 6.1: tabs must not be used in indentation"),
    Rule("yaml-unquoted", Severity.ERROR, _RECOVERY),
    Rule("yaml-layout", Severity.ERROR, _RECOVERY),
    Rule("yaml-duplicate-key", Severity.ERROR, "YAML 1.2, 3.2.1.1: the keys of a map are unique"),
)
