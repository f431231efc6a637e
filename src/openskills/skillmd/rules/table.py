"""Every rule there is, in a stable order."""

from openskills.skillmd.problem import Severity
from openskills.skillmd.rules import lint, naming, portability, specification
from openskills.skillmd.rules.reading import READING
from openskills.skillmd.rules.rule import Rule

_NAME = "specification, name field"
_DESCRIPTION = "specification, description field"
_COMPATIBILITY = "specification, compatibility field: must be 1-500 characters if provided"
_METADATA = "specification, metadata field: a map from string keys to string values"
_TOOLS = "specification, allowed-tools field: a space-separated string of tools"
_DISCLOSURE = "specification, progressive disclosure: keep SKILL.md under 500 lines and 5,000 tokens"
_REFERENCES = "specification, file references: relative paths from the skill root"
_ASCII = "portability: the specification says `a-z`, `0-9` in one place and Unicode in another; many clients take ASCII"
_EXTENSION = "portability: a field outside the specification, read by some clients only"

MANIFEST_RULES = (
    Rule("name-required", Severity.ERROR, f"{_NAME}: required", naming.name_required),
    Rule("name-type", Severity.ERROR, f"{_NAME}: a string", naming.name_type),
    Rule("name-unsafe", Severity.ERROR, f"{_NAME}: only alphanumerics and hyphens", naming.name_unsafe, fatal=True),
    Rule("name-length", Severity.ERROR, f"{_NAME}: must be 1-64 characters", naming.name_length),
    Rule("name-uppercase", Severity.ERROR, f"{_NAME}: lowercase", naming.name_uppercase),
    Rule("name-characters", Severity.ERROR, f"{_NAME}: only alphanumerics and hyphens", naming.name_characters),
    Rule("name-hyphen-edge", Severity.ERROR, f"{_NAME}: no hyphen at start or end", naming.name_hyphen_edge),
    Rule("name-hyphen-double", Severity.ERROR, f"{_NAME}: no consecutive hyphens", naming.name_hyphen_double),
    Rule("name-folder", Severity.ERROR, f"{_NAME}: must match the parent directory name", naming.name_folder),
    Rule(
        "description-required",
        Severity.ERROR,
        f"{_DESCRIPTION}: required, non-empty",
        specification.description_required,
        fatal=True,
    ),
    Rule("description-type", Severity.ERROR, f"{_DESCRIPTION}: a string", specification.description_type, fatal=True),
    Rule("description-length", Severity.ERROR, f"{_DESCRIPTION}: 1-1024 characters", specification.description_length),
    Rule("license-type", Severity.ERROR, "specification, license field: a name or a file", specification.license_type),
    Rule("compatibility-type", Severity.ERROR, _COMPATIBILITY, specification.compatibility_type),
    Rule("compatibility-length", Severity.ERROR, _COMPATIBILITY, specification.compatibility_length),
    Rule("metadata-type", Severity.ERROR, _METADATA, specification.metadata_type),
    Rule("metadata-value-type", Severity.WARNING, _METADATA, specification.metadata_values),
    Rule("allowed-tools-type", Severity.ERROR, _TOOLS, specification.allowed_tools_type),
    Rule("allowed-tools-list", Severity.WARNING, _TOOLS, specification.allowed_tools_list),
    Rule("name-unicode", Severity.WARNING, _ASCII, portability.name_unicode),
    Rule("name-normalised", Severity.WARNING, _ASCII, portability.name_normalised),
    Rule(
        "name-reserved",
        Severity.WARNING,
        "portability: Anthropic's platform reserves `anthropic` and `claude`",
        portability.name_reserved,
    ),
    Rule(
        "description-markup",
        Severity.WARNING,
        "portability: Anthropic's validator refuses angle brackets",
        portability.description_markup,
    ),
    Rule(
        "text-invisible",
        Severity.WARNING,
        "portability: what a model reads and a person cannot see is how instructions are smuggled",
        portability.text_invisible,
    ),
    Rule("extension-type", Severity.WARNING, _EXTENSION, portability.extension_type),
    Rule(
        "value-not-text",
        Severity.WARNING,
        "portability: other readers get a number, a date or a switch where the specification says text",
        portability.value_not_text,
    ),
    Rule(
        "yaml-comment-in-value",
        Severity.WARNING,
        "YAML 1.2, 6.6: a # after a blank begins a comment",
        portability.comment_in_value,
    ),
)
"""What can be said from the front matter and the folder's name; cheap enough to ask of every skill found."""

BODY_RULES = (
    Rule("field-unknown", Severity.NOTE, _EXTENSION, portability.field_unknown),
    Rule(
        "field-prose",
        Severity.WARNING,
        "client guide: text of several paragraphs that is not quoted; YAML cuts it at the first `: `",
        portability.field_prose,
    ),
    Rule("field-extension", Severity.NOTE, _EXTENSION, portability.field_extension),
    Rule(
        "description-short",
        Severity.NOTE,
        f"{_DESCRIPTION}: should describe what the skill does and when to use it",
        lint.description_short,
    ),
    Rule("description-when", Severity.NOTE, f"{_DESCRIPTION}: should say when to use the skill", lint.description_when),
    Rule("description-vague", Severity.NOTE, f"{_DESCRIPTION}: specific keywords", lint.description_vague),
    Rule("body-empty", Severity.WARNING, "specification, body content: the skill instructions", lint.body_empty),
    Rule("body-lines", Severity.WARNING, _DISCLOSURE, lint.body_lines),
    Rule("body-tokens", Severity.WARNING, _DISCLOSURE, lint.body_tokens),
    Rule("link-outside", Severity.WARNING, _REFERENCES, lint.link_outside),
)
"""What its author wants to hear: notes on fields and wording, and the advice on the body."""

FOLDER_RULES = (
    Rule("link-dead", Severity.WARNING, _REFERENCES, lint.link_dead),
    Rule(
        "reference-depth",
        Severity.WARNING,
        "specification, file references: keep references one level deep from SKILL.md, no chains",
        lint.reference_depth,
    ),
    Rule(
        "license-file",
        Severity.WARNING,
        "specification, license field: the name of a bundled license file",
        lint.license_file,
    ),
)
"""What can only be said when the files of the skill are known."""

ALL = (*READING, *MANIFEST_RULES, *BODY_RULES, *FOLDER_RULES)
"""The complete list of ids, including those that reading and discovery report by themselves."""
