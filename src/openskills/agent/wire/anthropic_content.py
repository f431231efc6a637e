"""The content of messages as Anthropic's Messages API has it. Pure."""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

from openskills.prompt.messages import get, items, string

Block: TypeAlias = dict[str, Any]

_DATA_URL = re.compile(r"data:(?P<mime>[\w.+/-]*)(?:;[\w=.+-]+)*?(?P<base64>;base64)?,(?P<data>.*)", re.DOTALL)
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def blocks_of(content: object) -> list[Block]:
    """The blocks of a message's content, which is text or parts. Text that is empty is left out: the API refuses it.

    Parts that a Claude model cannot see become a line of text that says so.
    """
    if isinstance(content, str):
        return [text_block(content)] if content.strip() else []
    return [block for part in items(content) for block in _blocks(part)]


def text_block(text: str) -> Block:
    """A block of text."""
    return {"type": "text", "text": text}


def _blocks(part: object) -> Iterator[Block]:
    kind = "text" if isinstance(part, str) else string(part, "type")
    if kind in {"text", "input_text", "output_text", "refusal"}:
        text = part if isinstance(part, str) else string(part, "text") or string(part, "refusal")
        if text.strip():
            yield text_block(text)
    elif kind == "image_url":
        link = get(part, "image_url")
        yield _image(link if isinstance(link, str) else string(link, "url"))
    elif kind == "file":
        yield _file(get(part, "file"))
    else:
        yield _unseen(kind or "part of a message")


def _image(url: str) -> Block:
    if url.startswith(("https://", "http://")):
        return {"type": "image", "source": {"type": "url", "url": url}}
    mime, data = _data(url)
    if mime not in _IMAGES or data is None:
        return _unseen(f"image of the type {mime or 'unknown'}")
    return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": _base64(data)}}


def _file(file: object) -> Block:
    name = string(file, "filename")
    mime, data = _data(string(file, "file_data"))
    titled = {"title": name} if name else {}
    if data is None:
        return _unseen(f"file {name or string(file, 'file_id')}".strip())
    if mime in _IMAGES:
        return _image(string(file, "file_data"))
    if mime == "application/pdf":
        source = {"type": "base64", "media_type": mime, "data": _base64(data)}
        return {"type": "document", "source": source, **titled}
    text = _text(data)
    if text is None or not text.strip():
        return _unseen(f"file {name} of the type {mime or 'unknown'}")
    return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}, **titled}


def _data(url: str) -> tuple[str, bytes | None]:
    """Type and bytes of a `data:` URL."""
    match = _DATA_URL.fullmatch(url)
    if match is None:
        return "", None
    try:
        data = base64.b64decode(match["data"]) if match["base64"] else unquote_to_bytes(match["data"])
    except binascii.Error:
        return match["mime"], None
    return match["mime"].lower(), data


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _text(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _unseen(what: str) -> Block:
    return text_block(f"[{what}: not shown, because this model cannot read it]")
