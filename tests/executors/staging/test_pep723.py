"""A script's metadata block is found exactly where the specification says, and its faults are named by line."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import InvalidArgument
from openskills.executors.staging.pep723 import ScriptMetadata, blocks, script_metadata

# The expression of the specification.
REFERENCE = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")

SCRIPT = """\
#!/usr/bin/env python3
'''Says something.'''
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "requests<3",
#   "rich",
# ]
#
# [tool.uv]
# exclude-newer = "2025-01-01T00:00:00Z"
# ///
import requests
"""


def test_the_block_of_a_script_is_read() -> None:
    found = script_metadata(SCRIPT)
    assert found is not None
    assert (found.dependencies, found.requires_python, found.line) == (("requests<3", "rich"), ">=3.11", 3)
    assert found.tool == {"uv": {"exclude-newer": "2025-01-01T00:00:00Z"}}


def test_a_script_with_other_line_ends_is_read_alike() -> None:
    assert script_metadata(SCRIPT.replace("\n", "\r\n")) == script_metadata(SCRIPT)


def test_an_empty_block_asks_for_nothing() -> None:
    assert script_metadata("# /// script\n#\n# ///") == ScriptMetadata((), None, {}, 1, "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "print()",
        "# /// script\n# dependencies = []\n",
        "# /// script\n# dependencies = []\nprint()\n# ///\n",
        "# /// script\n#dependencies = []\n# ///\n",
        "# /// script\n# ///\n",
        " # /// script\n# a = 1\n# ///\n",
        "# /// script \n# a = 1\n# ///\n",
        "#/// script\n# a = 1\n# ///\n",
        "# //// script\n# a = 1\n# ///\n",
        "# /// other\n# a = 1\n# ///\n",
        "# /// script\n# a = 1\n# /// \n",
    ],
)
def test_what_is_no_closed_script_block_is_none(text: str) -> None:
    assert script_metadata(text) is None


def test_blocks_of_other_types_are_left_to_others() -> None:
    found = script_metadata("# /// some-other\n# not toml at all\n# ///\n\n" + SCRIPT)
    assert found is not None
    assert found.line == 7


def test_a_closing_line_inside_the_run_of_comments_belongs_to_the_content() -> None:
    with pytest.raises(InvalidArgument, match="script: line 3: the `script` block is not TOML"):
        script_metadata("# /// script\n# dependencies = []\n# ///\n# a = 1\n# ///\n")


def test_a_second_block_is_refused_with_both_lines() -> None:
    with pytest.raises(InvalidArgument, match=r"run\.py: line 14: there is a `script` block at line 3 already"):
        script_metadata(SCRIPT + SCRIPT.partition("'''\n")[2], name="run.py")


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("# a = 1\n# b = = 2", 3, "is not TOML: Invalid value"),
        ("# a = 1\n# a = 2", 3, "is not TOML: Cannot overwrite"),
        ("# x = '''never closed", 2, "is not TOML: "),
        ("# a = 1\n# dependencies = 'requests'", 3, "`dependencies` must be a list of strings"),
        ("#\n# dependencies = ['a', 1]", 3, "`dependencies` must be a list of strings"),
        ("# requires-python = 3.11", 2, "`requires-python` must be a string"),
        ("# tool = 'uv'", 2, "`tool` must be a table"),
        ("# [[tool]]", 2, "`tool` must be a table"),
        ("# x = " + "[" * 5000, 1, "nested too deeply"),
        ("# x = '" + "y" * 70_000 + "'", 1, "more than 65,536 characters"),
    ],
)
def test_a_fault_in_the_block_is_named_with_its_line(content: str, line: int, message: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^script: line {line}: .*{re.escape(message)}") as error:
        script_metadata(f"# /// script\n{content}\n# ///\n")
    assert "at line" not in str(error.value)


LINES = st.sampled_from(
    ["# /// script", "# /// x-1", "# ///", "#", "# a = 1", "# b = 2", "#c", "", "print()", "# /// ", " # ///", "#  ///"]
)


@given(st.lists(LINES, max_size=12), st.booleans())
def test_the_same_blocks_are_found_as_by_the_expression_of_the_specification(lines: list[str], ends: bool) -> None:
    text = "\n".join(lines) + ("\n" if ends else "")
    expected = [
        (text.count("\n", 0, match.start()) + 1, match["type"], match["content"].splitlines())
        for match in REFERENCE.finditer(text)
    ]
    assert blocks(text) == expected


def test_a_long_file_of_opening_lines_is_read_to_its_end() -> None:
    # The expression of the specification would need hours for it.
    assert script_metadata("# /// script\n" * 200_000) is None
