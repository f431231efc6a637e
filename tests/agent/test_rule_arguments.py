"""Examples in a command are replaced by what the user has."""

import pytest

from openskills.agent.rule_arguments import assumed, filled


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
    found = filled(documented, files, "do it")
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
    assert filled(documented, [], request_text).command == command


def test_what_nobody_gave_is_missing_and_no_example_is_run_in_its_place() -> None:
    assert filled("python3 s.py table.csv", [], "do it").missing == ("file",)
    assert filled("python3 s.py --left a.csv --right b.csv", ["x.csv"], "do it").missing == ("file",)
    assert filled("python3 c.py 1 2 3", [], "mean of these").missing == ("numbers",)
    assert filled("python3 c.py <colour>", [], "do it").missing == ("<colour>",)


def test_a_command_for_one_file_can_be_repeated_and_labels_keep_the_results_apart() -> None:
    found = filled("python3 s.py t.csv --output r.md", ["b.csv"], "do it", label="my b")
    assert (found.command, found.used, found.repeats) == (
        "python3 s.py inputs/b.csv --output 'out/my b-r.md'", ("b.csv",), True,
    )  # fmt: skip
    assert not filled("python3 s.py a.md b.md", ["x.md", "y.md"], "do it").repeats
    assert not filled("python3 s.py", ["x.md"], "do it").repeats


def test_an_argument_that_is_only_an_example_is_missing_unless_the_request_says_it() -> None:
    assert filled("python3 c.py 5 mile km", [], "convert 5 mile to km").missing == ()
    assert filled("python3 c.py 5 mile km", [], "convert 10 kg to lb").missing == ("mile", "km")


def test_formulas_of_the_request_are_quoted() -> None:
    assert filled('python3 e.py "1/3 + 0.1"', [], "what is 17 * 23?").command == "python3 e.py '17 * 23'"
    assert filled("python3 e.py <expression>", [], "nothing").missing == ("formula",)


def test_values_that_the_request_does_not_have_are_known_to_be_examples() -> None:
    command = "python3 c.py inputs/a.csv --x month --y amount --output out/c.svg"
    assert assumed(command, "plot the amount") == ["--x month"]
    assert assumed(command, "amount by month") == []
