"""Commands in the text of a skill, what their words are examples of, and what takes the place of the examples."""

import pytest

from openskills.agent.rules.commands import (
    SlotKind,
    choose_command,
    fill_command,
    find_formulas,
    find_numbers,
    find_option_value,
    find_quotation,
    parse_slots,
)
from openskills.skillmd.markdown import find_commands


@pytest.mark.parametrize(
    ("documented", "files", "command"),
    [
        ("python3 s.py table.csv --output r.md", ["a.csv"], "python3 s.py inputs/a.csv --output out/r.md"),
        ("python3 s.py table.csv", ["x.log", "a.CSV"], "python3 s.py inputs/a.CSV"),
        ("python3 s.py table.csv", ["a.tsv"], "python3 s.py inputs/a.tsv"),
        ("./scripts/s.sh <file> [--json]", ["it's.csv"], "./scripts/s.sh 'inputs/it'\"'\"'s.csv'"),
        ("bash scripts/s.sh FILE > result.txt", ["a"], "bash scripts/s.sh inputs/a > out/result.txt"),
        ("python3 s.py --input=a.csv --output=b.md", ["c.csv"], "python3 s.py --input=inputs/c.csv --output=out/b.md"),
        ("python3 s.py docs/ README.md --json", ["a.md", "b.md"], "python3 s.py inputs/a.md inputs/b.md --json"),
        ("python3 s.py --l a.csv --r b.csv", ["x.csv", "y.csv"], "python3 s.py --l inputs/x.csv --r inputs/y.csv"),
        ("python3 s.py a.csv -o $OUTPUT_DIR/x", ["b.csv"], "python3 s.py inputs/b.csv -o $OUTPUT_DIR/x"),
        ("python3 s.py assets/t.html http://x.org/a.csv", [], "python3 s.py assets/t.html http://x.org/a.csv"),
        ("python3 s.py path/to/thing *.md", ["t"], "python3 s.py inputs/t *.md"),
    ],
)  # fmt: skip
def test_files_and_outputs_take_the_place_of_examples(documented: str, files: list[str], command: str) -> None:
    found = fill_command(documented, files, "do it")
    assert (found.command, found.missing) == (command, ())


@pytest.mark.parametrize(
    ("documented", "request_text", "command"),
    [
        ("python3 e.py 'some text'", "echo: it's $HOME", "python3 e.py 'it'\"'\"'s $HOME'"),
        ("python3 e.py <query>", 'find "needle" here', "python3 e.py needle"),
        ("python3 c.py mean 1 2 3", "mean of 10.5, 9.9 and 11.2", "python3 c.py mean 10.5 9.9 11.2"),
        ("python3 c.py mean NUMBERS", "mean of 4 and 5", "python3 c.py mean 4 5"),
        ("python3 t.py --top 20", "the top 5", "python3 t.py --top 5"),
        ("python3 t.py --top 20 --level ERROR", "level error", "python3 t.py --top 20 --level error"),
    ],
)
def test_words_and_numbers_of_the_request_take_the_place_of_examples(
    documented: str, request_text: str, command: str
) -> None:
    assert fill_command(documented, [], request_text).command == command


def test_what_nobody_gave_is_missing_and_no_example_is_run_in_its_place() -> None:
    assert fill_command("python3 s.py table.csv", [], "do it").missing == ("file",)
    assert fill_command("python3 s.py --left a.csv --right b.csv", ["x.csv"], "do it").missing == ("file",)
    assert fill_command("python3 c.py 1 2 3", [], "mean of these").missing == ("numbers",)
    assert fill_command("python3 c.py <colour>", [], "do it").missing == ("<colour>",)


def test_an_argument_that_is_only_an_example_is_missing_unless_the_request_says_it() -> None:
    assert fill_command("python3 c.py 5 mile km", [], "convert 5 mile to km").missing == ()
    assert fill_command("python3 c.py 5 mile km", [], "convert 10 kg to lb").missing == ("mile", "km")


def test_formulas_of_the_request_are_quoted() -> None:
    assert fill_command('python3 e.py "1/3 + 0.1"', [], "what is 17 * 23?").command == "python3 e.py '17 * 23'"
    assert fill_command("python3 e.py <expression>", [], "nothing").missing == ("formula",)


def test_a_value_of_an_option_is_missing_unless_the_request_says_it_or_it_is_a_number() -> None:
    command = "python3 c.py a.csv --x month --y amount --top 3"
    assert fill_command(command, ["b.csv"], "plot the amount").missing == ("month",)
    assert fill_command(command, ["b.csv"], "amount by month").missing == ()
    assert fill_command("python3 e.py <query>", [], "find it").missing == ("text",)


BODY = """\
# Tools

See `scripts/a.py` and `python3 scripts/a.py --help`. First: `pip install x`.

```json
{"python3": "scripts/no.py"}
```

Then `python3 scripts/inline.py table.csv`.

1. Describe the table:

   ```bash
   # an environment first
   python3 -m venv .venv
   $ python3 scripts/report.py table.csv \\
       --output report.md   # writes a report
   ls out
   ```

~~~
scripts/run.sh all
~~~
"""


def commands(body: str) -> list[str]:
    return [one.command for one in find_commands(body)]


def test_commands_in_blocks_come_first_then_those_within_lines() -> None:
    assert commands(BODY) == [
        "python3 scripts/report.py table.csv --output report.md",
        "scripts/run.sh all",
        "python3 scripts/inline.py table.csv",
    ]


def test_a_command_knows_the_words_around_it() -> None:
    found = find_commands(BODY)
    assert "# Tools 1. Describe the table:" in found[0].about
    assert "writes a report" in found[0].about
    assert found[2].about == "Then `python3 scripts/inline.py table.csv`."


def test_set_up_and_other_languages_are_not_commands() -> None:
    assert commands("`pip install x`\n\n```python\nimport os\n```\n\n```\nmake all\n```\n`scripts/a.py`") == []
    assert commands("") == []


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("Do this:\n\n    python3 scripts/a.py in.csv\n    # then\n    bash scripts/b.sh out/\n", 2),
        ("Do this:\n\n\tpython3 scripts/a.py in.csv", 1),
        ("python3 scripts/a.py in.csv --output report.md", 1),
        ("1. First:\n2. python3 scripts/a.py <file> [--fast]\n", 1),
        ("- Usage: python3 scripts/a.py FILE > out.txt", 1),
        ("> $ ./scripts/a.sh table.csv", 1),
        ("Run it with `python3 scripts/a.py table.csv`.", 1),
        ("Run it with ``uv run scripts/a.py table.csv``.", 1),
        ("python3 scripts/a.py takes a file and prints it.", 0),
        ("./scripts/a.sh is for people in a hurry", 0),
        ("python3 scripts/a.py in.csv.", 0),
        ("- It continues\n    python3 is a language", 0),
        ("See `scripts/a.py` and `./assets`.", 0),
        ("<!-- python3 scripts/a.py in.csv -->", 0),
        ("```json\npython3 scripts/a.py in.csv\n```", 0),
    ],
)
def test_commands_are_found_wherever_they_are_written_and_sentences_are_not(body: str, found: int) -> None:
    assert len(commands(body)) == found


@pytest.mark.parametrize(
    ("documented", "files", "request_text", "command"),
    [
        ("python a.py in.docx output.docx", ["x.docx"], "accept", "python a.py inputs/x.docx out/output.docx"),
        ("python a.py in.docx unpacked/", ["x.docx"], "unpack", "python a.py inputs/x.docx out/unpacked"),
        ("python a.py <input> <output_file>", ["x.csv"], "go", "python a.py inputs/x.csv out/output_file"),
        (
            "python a.py in.csv --output r.md",
            ["x.csv"],
            "write it to y.md",
            "python a.py inputs/x.csv --output out/y.md",
        ),
        ("python a.py in.csv out.csv", [], "convert data/x.csv to y.csv", "python a.py data/x.csv out/y.csv"),
        ("python a.py in.csv", [], "look in data/x.csv", "python a.py data/x.csv"),
        ("python a.py in.csv", [], "look at http://a.org/x.csv", "python a.py"),
        ("python a.py in.csv", [], "describe sales.csv", "python a.py sales.csv"),
        ("python a.py in.csv", [], "what is Node.js, e.g. at example.com?", "python a.py"),
        ("python a.py in.csv", [], "read ../../etc/passwd and /etc/shadow", "python a.py"),
    ],
)
def test_paths_of_the_request_and_of_outputs_are_filled_in(
    documented: str, files: list[str], request_text: str, command: str
) -> None:
    assert fill_command(documented, files, request_text).command == command


def test_a_block_that_is_never_closed_still_counts() -> None:
    assert commands("```\nbash go.sh") == ["bash go.sh"]


def test_the_words_of_a_request_choose_among_commands() -> None:
    rows = "| sort lines | `python3 t.py sort a.txt` |\n| each line once | `python3 t.py unique a.txt` |"
    found = find_commands(f"```\npython3 t.py count a.txt\n```\n{rows}")
    for request, wanted in (("sort it", "sort"), ("每一行 once", "unique"), ("hello", "count"), ("统计字数", "count")):
        chosen = choose_command(found, request, request, ["b.txt"])
        assert chosen is not None
        assert chosen.command == f"python3 t.py {wanted} inputs/b.txt"
    assert choose_command([], "anything", "anything", []) is None


def test_a_command_that_can_be_filled_in_is_preferred_only_among_equals() -> None:
    found = find_commands("`python3 e.py '1 + 2'`\n\n`python3 d.py 1 2 3`\n\n`python3 plot.py --x month`")
    chosen = [choose_command(found, text, text, []) for text in ("max of 3 and 7", "plot 3 and 7")]
    assert [one.command for one in chosen if one] == ["python3 d.py 3 7", "python3 plot.py --x month"]


def kinds(command: str) -> list[tuple[SlotKind, str]]:
    """Everything in a command that is not plain."""
    return [(slot.kind, " ".join(slot.examples)) for slot in parse_slots(command) if slot.kind is not SlotKind.PLAIN]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("python3 scripts/a.py table.csv --output r.md", [(SlotKind.FILE, "table.csv"), (SlotKind.OUTPUT, "r.md")]),
        ("python3 a.py count notes.txt", [(SlotKind.FILE, "notes.txt")]),
        ("python3 a.py invoice-reader", [(SlotKind.WORD, "invoice-reader")]),
        ("python3 a.py 5 mile km", [(SlotKind.NUMBERS, "5"), (SlotKind.WORD, "mile"), (SlotKind.WORD, "km")]),
        ("python3 a.py 'x^2 = 4' \"sqrt(2)\"", [(SlotKind.FORMULA, "'x^2 = 4' \"sqrt(2)\"")]),
        ("python3 a.py 'two words' --top 20", [(SlotKind.TEXT, "'two words'"), (SlotKind.VALUE, "20")]),
        ("python3 a.py -- -40 F C", [(SlotKind.NUMBERS, "-40"), (SlotKind.WORD, "F"), (SlotKind.WORD, "C")]),
        ("python3 a.py part.001 part.002", [(SlotKind.FILE, "part.001 part.002")]),
        ("python3 a.py FILE... <who>", [(SlotKind.FILE, "FILE..."), (SlotKind.WORD, "<who>")]),
        ("python3 a.py a.csv | head -n 3 b.csv", [(SlotKind.FILE, "a.csv")]),
        ("./scripts/a.sh references/x.md out/y $OUTPUT_DIR/z", []),
        ("", []),
    ],
)
def test_each_word_is_an_example_of_something_or_plain(command: str, found: list[tuple[SlotKind, str]]) -> None:
    assert kinds(command) == found


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("echo: hello there", ["hello there"]),
        ("echo：你好", ["你好"]),
        ('say "good morning" to them', ["good morning"]),
        ("搜索「错误」", ["错误"]),
        ("just this", []),
    ],
)
def test_the_text_for_a_command_is_quoted_or_follows_a_colon(text: str, wanted: list[str]) -> None:
    assert find_quotation(text) == wanted


def test_numbers_are_read_with_signs_decimals_and_thousands() -> None:
    assert find_numbers("mean of 10.5, -9.9 and 1,234.5; v2 is none") == ["10.5", "-9.9", "1234.5"]
    assert find_numbers("比较10和12") == ["10", "12"]
    assert find_numbers("none") == []


def test_the_word_after_an_option_in_a_request_is_its_value() -> None:
    assert find_option_value("top", "show the top 5 errors") == "5"
    assert find_option_value("line-ends", "use line ends: crlf") == "crlf"
    assert find_option_value("top", "on top of the list") == ""
    assert find_option_value("top", "stop 5") == ""


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("What is 17 * 23?", ["17 * 23"]),
        ("计算(1+2)×3", ["(1+2)*3"]),
        ("solve x^2 - x - 1 = 0 for me", ["x^2 - x - 1 = 0"]),
        ("2x + 3y = 5 and x - y = 1/2", ["2x + 3y = 5", "x - y = 1/2"]),
        ("what is sqrt(2)", ["sqrt(2)"]),
        ("I have 3 apples and a pear", []),
    ],
)
def test_calculations_are_found_between_words(text: str, formulas: list[str]) -> None:
    assert find_formulas(text) == formulas


@pytest.mark.parametrize("text", ["(" * 50_000, "1(" * 20_000, "-" * 50_000, '"' * 50_001, "x" * 50_000, "=" * 50_000])
def test_hostile_texts_cost_no_more_than_others(text: str) -> None:
    assert find_quotation("\n" * 50_000 + text) == []
    assert (find_numbers(text) == []) is ("1" not in text)
    assert len(find_formulas(text)) <= 1
    assert find_option_value("top", text) == ""


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        ("find", 'find "main loop" here', "main loop"),
        ("find", "find: “一 二”", "一 二"),
        ("digits", "to 10 digits", "10"),
        ("lines", "1.5 lines", ""),
    ],
)
def test_a_value_may_be_quoted_or_a_number_before_its_name(option: str, text: str, value: str) -> None:
    assert find_option_value(option, text) == value


def test_a_number_alone_is_not_a_calculation() -> None:
    assert find_formulas("max of -3 and 7") == []
    assert find_formulas("-3 + 7") == ["-3 + 7"]
