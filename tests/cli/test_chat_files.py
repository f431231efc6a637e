"""Files of a person: whole, bounded, and never something that is no file."""

import os
from pathlib import Path

import pytest

from openskills.cli.chat_files import attachment, is_file, name_of, shown
from openskills.errors import InvalidArgument, LimitExceeded
from openskills.tools.uploads import UploadLimits


def test_a_file_comes_with_its_name_its_bytes_and_its_type(tmp_path: Path) -> None:
    (tmp_path / "chart.bin").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    file = attachment(str(tmp_path / "chart.bin"))
    assert (file.name, file.data, file.mime_type) == ("chart.bin", b"\x89PNG\r\n\x1a\n\0", "image/png")
    assert shown(file) == "chart.bin (9 bytes)"
    assert name_of(str(tmp_path / "chart.bin")) == "chart.bin"


@pytest.mark.parametrize("path", ["nothing", "", "a\0b", ".", "pipe", "~nobody-has-this-name/x"])
def test_what_is_no_file_is_refused_with_its_name_and_never_waited_for(tmp_path: Path, path: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    given = path if "\0" in path or path.startswith("~") else str(tmp_path / path)
    with pytest.raises(InvalidArgument, match="attach"):
        attachment(given)
    assert not is_file(given)
    assert name_of(given) is None


def test_a_file_that_is_too_large_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(UploadLimits().file_bytes + 1)
    with pytest.raises(LimitExceeded, match="large has more than"):
        attachment(str(tmp_path / "large"))
