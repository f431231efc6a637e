"""Lines for people: nothing of a skill is obeyed by the terminal or taken for markup."""

import io
import json
from contextlib import redirect_stdout

from openskills.cli.output import counted, plain, say, say_json, say_text


def written(write: object, *arguments: object) -> str:
    stream = io.StringIO()
    with redirect_stdout(stream):
        assert callable(write)
        write(*arguments)
    return stream.getvalue()


def test_foreign_text_is_one_line_without_control_characters() -> None:
    assert plain(" a\n\tb  c ") == "a b c"
    assert plain("\x1b[31mred\x07 \u202edcba") == "\\x1b[31mred\\x07 \\u202edcba"
    assert plain("合并 naïve [red]") == "合并 naïve [red]"


def test_in_a_pipe_a_line_has_no_style() -> None:
    assert written(say, ("error", "bold red"), ": ", "[red]x[/red]") == "error: [red]x[/red]\n"


def test_json_is_ascii_whatever_is_in_it() -> None:
    value = {"a": "合并 \x1b \u202e \udcff"}
    text = written(say_json, value)
    assert text.isascii()
    assert json.loads(text) == value


def test_text_is_written_as_it_is() -> None:
    assert written(say_text, "<a>\n") == "<a>\n\n"


def test_one_is_not_plural() -> None:
    assert [counted(number, "skill") for number in (0, 1, 2, 1234)] == [
        "0 skills",
        "1 skill",
        "2 skills",
        "1,234 skills",
    ]
