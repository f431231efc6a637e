"""Write docs/reference/rules.md from the rules: `python scripts/rules_page.py`."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from openskills.catalog.discovery import MAX_DEPTH, MAX_DIRECTORIES
from openskills.skillmd import yaml
from openskills.skillmd.rules import BODY_RULES, FOLDER_RULES, MANIFEST_RULES
from openskills.skillmd.rules.rule import READING_RULES, Rule

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "rules.md"

MEANINGS = {
    "file-missing": "The folder has a SKILL.md.",
    "file-name": "The file is called exactly SKILL.md.",
    "file-type": "SKILL.md is a file, not a directory, a FIFO or a device.",
    "file-unreadable": "The file, or the directory that is searched, can be read.",
    "link-leaves-skill": "SKILL.md is not a link that leads out of its folder.",
    "file-size": f"The file has at most {yaml.MAX_FILE_BYTES:,} bytes.",
    "text-encoding": "The file is UTF-8.",
    "text-nul": "The file has no NUL character.",
    "text-bom": "The file does not begin with a byte-order mark.",
    "frontmatter-first-line": "The opening `---` is the first line.",
    "frontmatter-missing": "There is front matter.",
    "frontmatter-unclosed": "A line `---` closes the front matter.",
    "frontmatter-size": f"The front matter has at most {yaml.MAX_FRONTMATTER_CHARACTERS:,} characters.",
    "text-control": "The front matter has no control characters.",
    "yaml-syntax": "The front matter is YAML, or can be recovered.",
    "frontmatter-mapping": "The front matter is a map of fields.",
    "yaml-alias": "There are no anchors and aliases.",
    "yaml-tag": "There are no tags such as `!!python/object`.",
    "yaml-depth": f"Lists and maps are nested at most {yaml.MAX_DEPTH} levels deep.",
    "yaml-keys": f"There are at most {yaml.MAX_KEYS:,} keys and items.",
    "yaml-tab": "Lines are indented with spaces, not tabs.",
    "yaml-surrogates": "A character is not written as two surrogates, such as `\\ud83d\\udcc4`.",
    "yaml-unquoted": "A value with `: `, a stray quote or several paragraphs is quoted. It is taken as text.",
    "yaml-layout": "The fields can be read together. They are read one by one.",
    "suppression-unknown": "A comment that suppresses problems (`openskills: ignore RULE`) names rules.",
    "yaml-duplicate-key": "No key is repeated. The last one counts.",
}
"""What is wanted by the rules that reading and discovery check; other rules say it in their docstrings."""

FIXES = {
    "text-bom": "removes it",
    "frontmatter-first-line": "removes the blank lines",
    "yaml-tab": "indents with spaces",
    "yaml-surrogates": "writes the characters themselves",
    "yaml-unquoted": "quotes the value",
    "name-required": "writes the folder's name, when that is valid",
    "name-uppercase": "writes the folder's name, when that is what is meant",
    "name-characters": "writes the folder's name, when that is what is meant",
    "name-folder": "writes the folder's name, when that is what is meant",
    "metadata-value-type": "quotes the value, when it is a scalar",
    "allowed-tools-list": "writes one text, when that means the same",
    "value-not-text": "quotes the value",
}
"""What `validate --fix` does for a rule."""

CATALOG = (
    ("source-missing", "error", "A path that was named exists.", "create it or correct the path"),
    ("source-unavailable", "error", "A source is available.", "the message says what went wrong"),
    ("source-stale", "warning", "A server or repository can be reached. The copy from before is used.", "try again"),
    (
        "index-skill",
        "error",
        "A skill of a `.well-known` index is available and has the expected digest.",
        "tell its publisher",
    ),
    ("index-unverified", "note", "A `.well-known` index has digests.", "tell its publisher"),
    (
        "plugin-invalid",
        "error",
        "The `plugin.json` of an Agent Plugin follows its specification. Without that nothing of it is used.",
        "correct it, or name the folder `skills` itself",
    ),
    ("plugin-field", "warning", "A `plugin.json` has known fields only.", "move the data into `extensions`"),
    (
        "plugin-skills",
        "error",
        "The `skills` of a plugin are a folder inside of it.",
        "copy the folder into the plugin",
    ),
    ("plugin-mcp", "error", "The `mcp.json` of a plugin follows its specification.", "correct it"),
    (
        "plugin-server",
        "note",
        "A plugin has no MCP servers. They are not started.",
        "add it to your client if you trust it",
    ),
    ("marketplace-plugin", "error", "A plugin of a marketplace can be used.", "the message says what went wrong"),
    (
        "index-unwritable",
        "note",
        "The index of found skills can be stored. Without it, every start reads all files.",
        "make the cache directory writable",
    ),
    (
        "link-dangling",
        "warning",
        "The target of a link in a directory of skills exists.",
        "correct or remove the link",
    ),
    (
        "link-not-followed",
        "warning",
        "Links to directories stay in the project or archive.",
        "put the folder itself there",
    ),
    (
        "name-shadowed",
        "warning",
        "A name is used once. The skill from the later source counts.",
        "rename one of them, or name fewer sources",
    ),
    (
        "project-untrusted",
        "warning",
        "Somebody has agreed to the skills of the project as they are now.",
        "look at them, then `openskills trust`",
    ),
    (
        "mcp-untrusted",
        "warning",
        "Somebody has agreed to the skills of an MCP server as they are now.",
        "look at them with `openskills trust SERVER`",
    ),
    (
        "mcp-mismatch",
        "error",
        "A file of a skill is what the MCP server lists: its size, its digest, its front matter.",
        "tell the operator of the server",
    ),
    (
        "mcp-skill",
        "error",
        "An MCP server lists a skill as the specification says, with digests and within the limits.",
        "tell the operator of the server",
    ),
    ("mcp-name", "note", "Names of the skills of one MCP server are unique.", "use the name in the message"),
    (
        "scan-limit",
        "warning",
        f"A directory is at most {MAX_DEPTH} levels deep and has at most {MAX_DIRECTORIES:,} directories.",
        "name a smaller folder",
    ),
)
"""Problems that a catalog reports: id, severity, requirement, what to do."""

_TOP = """\
# Rules

Every problem carries the id of a rule. `openskills validate` is strict: an **error** makes a skill invalid, a
**warning** does so under `--strict`, a **note** never does, except `field-unknown` under `--strict`. Loading is
lenient: a **fatal** error leaves the skill out, every other error becomes a warning. Warnings and notes about fields,
wording and files are for authors, and only `validate` looks for them.

If a rule is broken many times in one file, the first problems are reported and the rest are counted. This page
is generated by `scripts/rules_page.py` from `src/openskills/skillmd/rules`; do not edit it.
"""


def page() -> str:
    """The text of the page."""
    sections = (
        ("Reading the file", "Found while the file is opened, decoded and read.", READING_RULES),
        (
            "The fields",
            "Checked with the front matter and the folder's name. Loading checks the errors.",
            MANIFEST_RULES,
        ),
        ("Wording and body", "Advice to authors; `validate` only.", BODY_RULES),
        ("The folder", "Checked with all files of the skill; `validate` only.", FOLDER_RULES),
    )
    parts = [_TOP, *(f"## {title}\n\n{text}\n\n{_rules(rules)}" for title, text, rules in sections), _catalog()]
    return "\n".join(parts)


def _rules(rules: Sequence[Rule]) -> str:
    rows = ((f"`{rule.id}`", _severity(rule), _meaning(rule), rule.clause, FIXES.get(rule.id, "")) for rule in rules)
    return _table(("rule", "severity", "requirement", "source", "`--fix`"), rows)


def _catalog() -> str:
    rows = ((f"`{name}`", severity, wanted, remedy) for name, severity, wanted, remedy in CATALOG)
    intro = "Problems with sources and with several skills, not with the text of one. `catalog.problems` has them, too."
    return f"## Sources and catalog\n\n{intro}\n\n{_table(('rule', 'severity', 'requirement', 'what to do'), rows)}"


def _severity(rule: Rule) -> str:
    return f"{rule.severity}, fatal" if rule.fatal else str(rule.severity)


def _meaning(rule: Rule) -> str:
    return MEANINGS[rule.id] if rule.check is None else (rule.check.__doc__ or "").partition("\n")[0]


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
