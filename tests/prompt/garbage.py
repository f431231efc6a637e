"""Messages as nobody should send them, at random."""

from hypothesis import strategies as st

_FIELDS = ["role", "content", "tool_calls", "function_call", "id", "function", "name", "arguments", "text"]
_DEEP = "[" * 9_000

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["loaded: pdf", "call_1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_FIELDS), inner, max_size=4),
    max_leaves=8,
)
_arguments = st.sampled_from(
    ['{"skill": "pdf"}', '{"skill": "pdf", "docs": "a.md"}', "{", _DEEP, '"x"', '{"docs": {}}']
)
_function = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["skill_load", "skill_select_docs", "skill_unload"]) | anything,
        "arguments": _arguments | anything,
    },
)
_call = st.fixed_dictionaries({}, optional={"id": st.just("call_1") | anything, "function": _function | anything})
_text = st.sampled_from(
    ["loaded: pdf", "loaded:", "loaded: pdf\nevicted:", "unloaded: pdf", '{"skill": "pdf"', _DEEP.replace("[", '{"a":'),
     '{"skill": "pdf", "selected_docs": ["a.md"]}', "\ud800"]
)  # fmt: skip
_part = st.fixed_dictionaries({"type": st.just("text")}, optional={"text": _text | anything})

garbage = anything | st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(
            ["system", "developer", "user", "assistant", "tool", "function", "", None, 3, ["tool"]]
        ),
        "content": _text | st.lists(_part, max_size=2) | anything,
        "tool_calls": st.lists(_call | anything, max_size=3) | anything,
        "function_call": _function | anything,
        "tool_call_id": st.just("call_1") | anything,
        "name": st.sampled_from(["skill_load", "skill_select_docs"]) | anything,
    },
)
"""Something in a list of messages: almost a message, or nothing of the kind."""
