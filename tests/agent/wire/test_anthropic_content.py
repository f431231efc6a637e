"""Parts of messages, as Claude can see them."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.agent.wire.anthropic_content import blocks_of
from openskills.testing import PNG

PICTURE = base64.b64encode(PNG).decode()
PDF = base64.b64encode(b"%PDF-1.7").decode()


def test_text_is_a_block_and_nothing_is_none() -> None:
    assert blocks_of("Hello") == [{"type": "text", "text": "Hello"}]
    assert blocks_of("") == blocks_of(" \n") == blocks_of(None) == blocks_of([{"type": "text", "text": ""}]) == []


def test_a_picture_is_shown_from_its_bytes_or_from_its_address() -> None:
    inside = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}
    outside = {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "high"}}
    assert blocks_of([inside, outside]) == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
    ]


def test_files_are_documents_with_their_names() -> None:
    pdf = {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}}
    text = {"type": "file", "file": {"filename": "a.csv", "file_data": "data:text/csv;charset=utf-8,a%2Cb"}}
    picture = {"type": "file", "file": {"filename": "a.png", "file_data": f"data:image/png;base64,{PICTURE}"}}
    assert blocks_of([pdf, text, picture]) == [
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
            "title": "a.pdf",
        },
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a,b"}, "title": "a.csv"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}},
    ]


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"type": "input_audio", "input_audio": {"data": "x"}}, "input_audio"),
        ({"type": "file", "file": {"file_id": "file-1"}}, "file file-1"),
        ({"type": "file", "file": {"filename": "a.zip", "file_data": "data:application/zip;base64,/w=="}}, "a.zip"),
        ({"type": "image_url", "image_url": {"url": "data:image/tiff;base64,AAAA"}}, "image/tiff"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,A"}}, "image/png"),
        ({"type": "image_url"}, "image"),
        ({}, "part of a message"),
    ],
)
def test_what_claude_cannot_see_is_a_line_that_says_so(part: dict[str, Any], said: str) -> None:
    (block,) = blocks_of([part])
    assert block["type"] == "text"
    assert said in block["text"]
    assert "cannot read it" in block["text"]


@given(
    st.recursive(st.none() | st.text(max_size=30), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_no_content_breaks_it(content: object) -> None:
    assert all(block["type"] != "text" or block["text"].strip() for block in blocks_of(content))
