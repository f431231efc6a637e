"""What `--input` may say."""

from pathlib import Path

import pytest

from openskills.cli.invoke_input import read_input
from openskills.errors import InvalidArgument


def test_json_is_read_as_it_stands() -> None:
    assert read_input('{"text": "你好", "n": [1, null]}') == {"text": "你好", "n": [1, None]}


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_input(f"@{tmp_path / 'a.json'}") == {"a": 1}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{'a': 1}", "line 1, column 2"),
        ("", "no JSON"),
        ("[1]", "no object"),
        ('{"a": NaN}', "NaN is no number"),
        ('{"a": 1, "a": 2}', "the same name twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "1" * 5_000 + "}", "no JSON"),
    ],
)
def test_what_is_no_object_of_json_is_refused_with_an_example(text: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why) as caught:
        read_input(text)
    assert '{"text": "hello"}' in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"nowhere\.json.* No such file"):
        read_input(f"@{tmp_path / 'nowhere.json'}")
    with pytest.raises(InvalidArgument, match="cannot be read"):
        read_input("@a\0b")
    (tmp_path / "latin").write_bytes(b'{"a": "\xe9"}')
    with pytest.raises(InvalidArgument, match="not UTF-8 at byte 7"):
        read_input(f"@{tmp_path / 'latin'}")
