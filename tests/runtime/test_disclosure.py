"""Whatever a model, a user and a framework do: what counts as loaded is in the request, once, and nothing else is."""

from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from openskills.runtime.options import SessionOptions
from openskills.runtime.session import SkillSession
from tests.long_form import examples
from tests.runtime.talking import Transcript, runtime_in, text_of
from tests.tools.contexts import write_skill

NAMES = ("alpha", "beta", "gamma")
DOCS = ("one.md", "two.md")

_skill: SearchStrategy[Any] = st.sampled_from(NAMES)
_docs: SearchStrategy[Any] = st.lists(st.sampled_from((*DOCS, "*")), max_size=2)
_load: SearchStrategy[Any] = st.tuples(
    st.just("skill_load"), st.fixed_dictionaries({"skill": _skill}, optional={"docs": _docs})
)
_select: SearchStrategy[Any] = st.tuples(
    st.just("skill_select_docs"),
    st.fixed_dictionaries({"skill": _skill, "docs": _docs, "mode": st.sampled_from(["add", "replace", "clear"])}),
)
_unload: SearchStrategy[Any] = st.tuples(st.just("skill_unload"), st.fixed_dictionaries({"skill": _skill}))
_calls: SearchStrategy[Any] = st.tuples(
    st.just("calls"), st.lists(st.one_of(_load, _select, _unload), min_size=1, max_size=3)
)
_steps: SearchStrategy[Any] = st.one_of(
    _calls,
    st.tuples(st.just("user"), st.sampled_from(["hello", "again"])),
    st.tuples(st.just("forget"), st.integers(0, 6)),
    st.tuples(st.just("clear"), st.integers(0, 6)),
    st.tuples(st.just("summary"), st.none()),
)


def _chosen(mode: str, placement: str, lost: str, most: int) -> SessionOptions:
    return SessionOptions(load_mode=mode, placement=placement, when_lost=lost, max_loaded_skills=most)


_options = st.builds(
    _chosen,
    st.sampled_from(["turn", "once", "session"]),
    st.sampled_from(["tool_result", "system"]),
    st.sampled_from(["restore", "unload"]),
    st.sampled_from([0, 1, 2]),
)


def make_skills(directory: Path) -> None:
    for name in NAMES:
        folder = write_skill(directory, name, {doc: f"<<doc {doc} of {name}>>" for doc in DOCS})
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: D.\n---\n<<body of {name}>>\n")


def check(session: SkillSession, request: list[dict[str, Any]]) -> None:
    text = text_of(request)
    view = session.loaded_skills()
    for name in NAMES:
        assert text.count(f"<<body of {name}>>") == (name in view), (name, view, request)
        selected = session.docs_of(name) if name in view else ()
        for doc in DOCS:
            wanted = doc in selected or selected == ("*",)
            assert text.count(f"<<doc {doc} of {name}>>") == wanted, (name, doc, selected, request)


async def step(talk: Transcript, kind: str, what: Any) -> None:
    if kind == "calls":
        await talk.call(*what)
    elif kind == "user":
        talk.answer()
        talk.messages.append({"role": "user", "content": what})
    elif kind == "forget":
        # A framework drops the oldest messages; a result never stays without its call.
        del talk.messages[:what]
        while talk.messages and talk.messages[0]["role"] == "tool":
            del talk.messages[0]
    elif kind == "clear":
        results = [message for message in talk.messages if message["role"] == "tool"]
        if results:
            results[what % len(results)]["content"] = "[old tool result cleared]"
    elif kind == "summary":
        talk.messages = [{"role": "system", "content": "Summary: they loaded alpha."}, *talk.messages[-1:]]
        talk.messages = [message for message in talk.messages if message["role"] != "tool"]


@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(options=_options, steps=st.lists(_steps, max_size=10))
async def test_what_is_loaded_is_in_the_request_once_and_nothing_else_is(
    tmp_path: Path, options: SessionOptions, steps: list[tuple[str, Any]]
) -> None:
    if not (tmp_path / "skills").exists():
        make_skills(tmp_path)

    runtime = runtime_in(tmp_path, options=options)
    async with runtime.session("s") as session:
        talk = Transcript(session)
        talk.user("hello")
        for kind, what in steps:
            await step(talk, kind, what)
            request = talk.request()
            check(session, request)
            again = session.context(talk.messages)
            assert again == request
            if options.max_loaded_skills:
                assert len(session.loaded_skills()) <= options.max_loaded_skills
