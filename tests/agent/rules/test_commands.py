"""Examples in a command are replaced by what the user has.

Commands in the text of a skill.

What the words of a command are examples of.
"""

import pytest

from openskills.agent.rules.commands import (
    SlotKind,
    choose_command,
    fill_command,
    find_assumed_values,
    find_commands,
    has_file_slot,
    is_placeholder,
    parse_slots,
)


@pytest.mark.parametrize(
    ("documented", "files", "command"),
    [
        ("python3 s.py table.csv --output r.md", ["a.csv"], "python3 s.py inputs/a.csv --output out/r.md"),
        ("python3 s.py table.csv", ["x.log", "a.CSV"], "python3 s.py inputs/a.CSV"),
        ("python3 s.py table.csv", ["a.tsv"], "python3 s.py inputs/a.tsv"),
        ("./scripts/s.sh <file> [--json]", ["it's.csv"], "./scripts/s.sh 'inputs/it'\"'\"'s.csv'"),
        ("bash scripts/s.sh FILE > result.txt", ["a"], "bash scripts/s.sh inputs/a > out/result.txt"),
        ("python3 s.py --input=a.csv --output=b.md", ["c.csv"], "python3 s.py --input=inputs/c.csv --output=out/b.md"),
        ("python3 s.py docs README.md --json", ["a.md", "b.md"], "python3 s.py inputs/a.md inputs/b.md --json"),
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
        ("python3 e.py <query>", "find needle here", "python3 e.py needle"),
        ("python3 c.py mean 1 2 3", "mean of 10.5, 9.9 and 11.2", "python3 c.py mean 10.5 9.9 11.2"),
        ("python3 c.py mean NUMBERS", "mean of 4 and 5", "python3 c.py mean 4 5"),
        ("python3 t.py --top 20", "the top 5", "python3 t.py --top 5"),
        ("python3 t.py --top 20 --level ERROR", "hello", "python3 t.py --top 20 --level ERROR"),
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


def test_a_command_for_one_file_can_be_repeated_and_labels_keep_the_results_apart() -> None:
    found = fill_command("python3 s.py t.csv --output r.md", ["b.csv"], "do it", label="my b")
    assert (found.command, found.used, found.repeats) == (
        "python3 s.py inputs/b.csv --output 'out/my b-r.md'", ("b.csv",), True,
    )  # fmt: skip
    assert not fill_command("python3 s.py a.md b.md", ["x.md", "y.md"], "do it").repeats
    assert not fill_command("python3 s.py", ["x.md"], "do it").repeats


def test_an_argument_that_is_only_an_example_is_missing_unless_the_request_says_it() -> None:
    assert fill_command("python3 c.py 5 mile km", [], "convert 5 mile to km").missing == ()
    assert fill_command("python3 c.py 5 mile km", [], "convert 10 kg to lb").missing == ("mile", "km")


def test_formulas_of_the_request_are_quoted() -> None:
    assert fill_command('python3 e.py "1/3 + 0.1"', [], "what is 17 * 23?").command == "python3 e.py '17 * 23'"
    assert fill_command("python3 e.py <expression>", [], "nothing").missing == ("formula",)


def test_values_that_the_request_does_not_have_are_known_to_be_examples() -> None:
    command = "python3 c.py inputs/a.csv --x month --y amount --output out/c.svg"
    assert find_assumed_values(command, "plot the amount") == ["--x month"]
    assert find_assumed_values(command, "amount by month") == []


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


def test_set_up_and_other_languages_are_no_commands() -> None:
    assert commands("`pip install x`\n\n```python\nimport os\n```\n\n```\nmake all\n```\n`scripts/a.py`") == []
    assert commands("") == []


def test_a_block_that_is_never_closed_still_counts() -> None:
    assert commands("```\nbash go.sh") == ["bash go.sh"]


def test_the_words_of_a_request_choose_among_commands() -> None:
    rows = "| sort lines | `python3 t.py sort a.txt` |\n| each line once | `python3 t.py unique a.txt` |"
    found = find_commands(f"```\npython3 t.py count a.txt\n```\n{rows}")
    for request, wanted in (("sort it", "sort"), ("给文件去重", "unique"), ("hello", "count"), ("统计字数", "count")):
        chosen = choose_command(found, request)
        assert chosen is not None
        assert chosen.command == f"python3 t.py {wanted} a.txt"
    assert choose_command([], "anything") is None


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
        ("python3 a.py FILE... <who>", [(SlotKind.FILE, "FILE..."), (SlotKind.UNKNOWN, "<who>")]),
        ("python3 a.py a.csv | head -n 3 b.csv", [(SlotKind.FILE, "a.csv")]),
        ("./scripts/a.sh references/x.md out/y $OUTPUT_DIR/z", []),
        ("", []),
    ],
)
def test_each_word_is_an_example_of_something_or_plain(command: str, found: list[tuple[SlotKind, str]]) -> None:
    assert kinds(command) == found


def test_commands_for_files_are_known() -> None:
    assert has_file_slot("python3 a.py --input=t.csv")
    assert not has_file_slot("python3 a.py 1 2 3")


def test_placeholders_are_told_from_examples() -> None:
    assert is_placeholder("<file>")
    assert is_placeholder("FILE...")
    assert not is_placeholder("file.csv")
