"""Files of users."""

import pytest

from openskills.agent.attachments import Attachment, said
from openskills.errors import InvalidArgument


def test_a_file_is_bytes_or_a_reference() -> None:
    with pytest.raises(InvalidArgument, match="needs data or a ref"):
        Attachment("a")
    with pytest.raises(InvalidArgument, match="needs data or a ref"):
        Attachment("a", b"x", "artifact://x")


def test_the_model_is_told_safe_names() -> None:
    files = [Attachment("../../etc/passwd", b""), Attachment("b\n.csv", b"")]
    assert said("look", files).endswith("[attached: passwd, b_.csv; commands find the user's files in work/inputs/]")
    assert said("look", []) == "look"
