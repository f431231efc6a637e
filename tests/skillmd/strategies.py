"""Generated SKILL.md files: sound ones, ones as careless authors write them, and ones that were damaged."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.long_form import examples

# Two cores and other tests beside us: how long one example takes says nothing.
relaxed = settings(deadline=None, max_examples=examples(150))

_PIECES = (
    *(
        "Merge",
        "PDF",
        "files",
        "Use",
        "when",
        "asked",
        "Keywords",
        "forms",
        "表格",
        "ü",
        "😀",
        "1.0",
        "true",
        "no",
        "2026-01-01",
    ),
    *(
        ": ",
        ":",
        " #",
        "#",
        "'",
        '"',
        " - ",
        "-",
        "[",
        "]",
        "{",
        "}",
        "*",
        "&",
        "!",
        "|",
        ">",
        "%",
        "@",
        "`",
        ",",
        "\\",
        "~",
        "<b>",
    ),
    *(" ", "  ", "\t", "\u2028", "\x85", "\xa0", "\u200b", "...", "---", "null", "http://a.b/c", "C:\\Users"),
)

line_ends = st.sampled_from(["\n", "\r\n", "\r"])
words = st.text(alphabet=st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=8)
prose = st.lists(st.sampled_from(_PIECES) | words, min_size=1, max_size=10).map("".join)
keys = st.sampled_from(
    [
        "name",
        "description",
        "license",
        "compatibility",
        "allowed-tools",
        "version",
        "homepage",
        "other",
        "Keywords",
        "paths",
    ]
)
scalars = st.one_of(
    prose,
    prose.map(lambda text: f'"{text}"'),
    prose.map(lambda text: f"'{text}'"),
    st.sampled_from(["", "1.0", "yes", "~", "pdf-tools", "Pdf_Tools", "[Read, Write]", "{a: b,}", "Bash(git:*) Read"]),
)


@st.composite
def fields(draw: st.DrawFn) -> str:
    """One field, in one of the shapes that real files have."""
    key = draw(keys)
    shape = draw(st.integers(0, 6))
    if shape <= 2:
        return f"{key}: {draw(scalars)}\n"
    if shape == 3:
        header = draw(st.sampled_from(["|", ">", ">-", "|-", ""]))
        return f"{key}: {header}\n" + "".join(f"  {draw(prose)}\n" for _ in range(draw(st.integers(1, 3))))
    if shape == 4:
        margin = draw(st.sampled_from(["", "  ", "\t"]))
        return f"{key}: {draw(prose)}\n\n{margin}{draw(prose)}\n"
    if shape == 5:
        return f"{key}:\n" + "".join(f"  - {draw(scalars)}\n" for _ in range(draw(st.integers(1, 3))))
    indent = draw(st.sampled_from(["  ", "    ", "\t", " "]))
    pairs = draw(
        st.lists(st.tuples(st.sampled_from(["author", "version", "tags", "a"]), scalars), min_size=1, max_size=4)
    )
    return "metadata:\n" + "".join(f"{indent}{name}: {value}\n" for name, value in pairs)


fronts: SearchStrategy[str] = st.lists(fields() | prose.map(lambda text: f"# {text}\n"), max_size=5).map("".join)
bodies = st.lists(prose | st.sampled_from(["", "---", "# Title", "    code", "```", "[a](b.md)"]), max_size=6).map(
    "\n".join
)


@st.composite
def skill_files(draw: st.DrawFn) -> str:
    """A whole file with fences, in any line ends."""
    start = draw(st.sampled_from(["", "", "", "\ufeff", "\n", "\ufeff\n \n"]))
    text = f"{start}---\n{draw(fronts)}---\n{draw(bodies)}"
    return text.replace("\n", draw(line_ends))


@st.composite
def damaged_files(draw: st.DrawFn) -> str:
    """A file with a few characters cut out, doubled or put in."""
    text = draw(skill_files())
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 5)))
        text = text[:start] + draw(st.text(max_size=3) | st.sampled_from(_PIECES)) + text[end:]
    return text


any_text = st.one_of(st.text(), skill_files(), damaged_files())
