"""Markdown that may be hostile as HTML."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.host.console.pages import MAX_CHARACTERS, is_safe_link, render_markdown

ALLOWED = {
    *("p", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "a", "span", "em", "strong", "s", "code", "pre", "br", "hr"),
    *("blockquote", "div", "table", "thead", "tbody", "tr", "th", "td"),
}


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](data:text/html,<script>alert(1)</script>)",
        "[x](vbscript:x) [y](file:///etc/passwd) [z](//evil.example/x)",
        "![x](https://evil.example/track.png)",
        '[x](https://a.example/"onmouseover="alert(1))',
        '<https://a.example/"onclick=alert(1)>',
        "[ref]: javascript:alert(1)\n\n[ref]",
        "a\u202eb\x1b[31m",
    ],
)
def test_nothing_active_comes_out(text: str) -> None:
    html = str(render_markdown(text))
    check_html(html)
    assert "evil.example" not in "".join(re.findall(r'(?:src|href)="([^"]*)"', html))


def check_html(html: str) -> None:
    for tag, attributes in re.findall(r"<([a-z0-9]+)([^>]*)>", html):
        assert tag in ALLOWED, html
        for name, value in re.findall(r'([\w-]+)="([^"]*)"', attributes):
            assert name in ("href", "rel", "target", "class", "tabindex", "start", "style"), html
            if name == "href":
                assert is_safe_link(value.replace("&amp;", "&")), html
    assert "\u202e" not in html
    assert "\x1b" not in html


@given(st.text(alphabet="<>[]()!`*_#|-:\n\"'&abjs/.\u202e\x00 ", max_size=120))
def test_any_text_gives_only_allowed_elements(text: str) -> None:
    check_html(str(render_markdown(text)))


def test_headings_begin_at_the_second_level_without_gaps() -> None:
    html = str(render_markdown("# A\n\n#### B\n\n###### C\n\n# D"))
    assert re.findall(r"<(h\d)>", html) == ["h2", "h3", "h4", "h2"]


def test_relative_links_lead_where_the_caller_says() -> None:
    html = str(render_markdown("[a](docs/b.md) [c](#d)", lambda path: f"/files?{path}"))
    assert '<a href="/files?docs/b.md">a</a>' in html
    assert "<span>c</span>" in html


def test_a_long_text_is_cut() -> None:
    assert str(render_markdown("a" * (MAX_CHARACTERS + 10))).endswith("…")


def test_deep_nesting_is_harmless() -> None:
    check_html(str(render_markdown("> " * 5000 + "x" + "\n" + "[" * 5000)))
