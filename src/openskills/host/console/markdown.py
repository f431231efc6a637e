"""Markdown of skills, models and outputs as safe HTML: no raw HTML, no images, no links but to the web and to files."""

from collections.abc import Callable, MutableMapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from openskills.host.console.pages import to_visible

MAX_CHARACTERS = 400_000
"""How much of a text is rendered; the rest is left out, with a note."""


def render_markdown(text: str, link: Callable[[str], str] | None = None) -> Markup:
    """HTML of a text that may be hostile.

    `link` gives the address of a relative link, such as `references/forms.md`; without it these are shown as text.
    Headings begin at the second level, because the page has the first.
    """
    cut = len(text) > MAX_CHARACTERS
    html = _get_parser().render(to_visible(text[:MAX_CHARACTERS]), {"link": link, "level": 1})
    return Markup(html) + ("…" if cut else "")  # noqa: S704 - the parser escapes everything


def is_safe_link(url: str) -> bool:
    """Whether a link leads to the web or to a file beside the text: no `javascript:`, `data:`, `file:` and the like."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if parts.scheme in ("http", "https"):
        return bool(parts.netloc)
    return not parts.scheme and not parts.netloc and not url.startswith(("//", "\\")) and ":" not in url.split("/")[0]


@cache
def _get_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False})
    parser.validateLink = is_safe_link
    parser.enable(["table", "strikethrough"])
    for name, rule in (
        ("heading_open", _open_heading),
        ("heading_close", _close_heading),
        ("link_open", _open_link),
        ("link_close", _close_link),
        ("image", _show_image),
        ("table_open", _open_table),
        ("table_close", _close_table),
    ):
        parser.add_render_rule(name, rule)
    return parser


_Environment = MutableMapping[str, Any]


def _open_heading(_: RendererHTML, tokens: Sequence[Token], at: int, __: Any, env: _Environment) -> str:
    # Never more than one level below the previous heading, so that the outline of the page has no gaps.
    level = min(int(tokens[at].tag[1]) + 1, env["level"] + 1, 6)
    env["level"] = level
    return f"<h{level}>"


def _close_heading(_: RendererHTML, __: Sequence[Token], ___: int, ____: Any, env: _Environment) -> str:
    return f"</h{env['level']}>\n"


def _open_link(_: RendererHTML, tokens: Sequence[Token], at: int, __: Any, env: _Environment) -> str:
    address = str(tokens[at].attrs.get("href", ""))
    opened: list[str] = env.setdefault("opened", [])
    link: Callable[[str], str] | None = env["link"]
    if address.startswith(("http://", "https://")):
        opened.append("a")
        return f'<a href="{escape(address)}" rel="noopener noreferrer nofollow" target="_blank">'
    if link is not None and address and not address.startswith("#"):
        opened.append("a")
        return f'<a href="{escape(link(address))}">'
    opened.append("span")
    return "<span>"


def _close_link(_: RendererHTML, __: Sequence[Token], ___: int, ____: Any, env: _Environment) -> str:
    return f"</{env['opened'].pop()}>"


def _show_image(_: RendererHTML, tokens: Sequence[Token], at: int, __: Any, ___: _Environment) -> str:
    # Not loaded: an image from elsewhere would tell its owner who reads the page.
    token = tokens[at]
    source = str(token.attrs.get("src", ""))
    return f'<span class="image">🖼 {escape(token.content or source)}</span>'


def _open_table(_: RendererHTML, __: Sequence[Token], ___: int, ____: Any, _____: _Environment) -> str:
    return '<div class="table" tabindex="0"><table>\n'


def _close_table(_: RendererHTML, __: Sequence[Token], ___: int, ____: Any, _____: _Environment) -> str:
    return "</table></div>\n"
