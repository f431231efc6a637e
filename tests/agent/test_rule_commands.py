"""Commands in the text of a skill."""

from openskills.agent.rule_commands import best, documented

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
    return [one.command for one in documented(body)]


def test_commands_in_blocks_come_first_then_those_within_lines() -> None:
    assert commands(BODY) == [
        "python3 scripts/report.py table.csv --output report.md",
        "scripts/run.sh all",
        "python3 scripts/inline.py table.csv",
    ]


def test_a_command_knows_the_words_around_it() -> None:
    found = documented(BODY)
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
    found = documented(f"```\npython3 t.py count a.txt\n```\n{rows}")
    for request, wanted in (("sort it", "sort"), ("给文件去重", "unique"), ("hello", "count"), ("统计字数", "count")):
        chosen = best(found, request)
        assert chosen is not None
        assert chosen.command == f"python3 t.py {wanted} a.txt"
    assert best([], "anything") is None
