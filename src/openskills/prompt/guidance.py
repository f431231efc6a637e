"""Guidance for the model on how to use skills with the tools it has."""

from collections.abc import Collection, Iterator

from openskills.prompt.blocks import to_one_line

HEADER = "Tooling and workspace guidance:"


def build_guidance(tools: Collection[str], *, policy_note: str = "") -> str:
    """The header and its bullets for these tools; the same text for the same tools, in whatever order they come.

    `policy_note` says in a sentence which commands may be run; it is a bullet of its own where commands can be run.
    """
    names = frozenset(tools)
    bullets = [
        *_describe_loading(names),
        *_describe_documents(names),
        *_describe_commands(names, to_one_line(policy_note)),
        *_describe_files(names),
    ]
    return "\n".join([HEADER, *(f"- {bullet}" for bullet in bullets)])


def _describe_loading(tools: frozenset[str]) -> Iterator[str]:
    if "skill_load" not in tools:
        yield "The list of skills is a catalogue: they cannot be loaded here. Use other tools, or say what is missing."
        return
    yield (
        "The list tells what there is, not how it is done: call skill_load before you rely on a skill"
        f"{' or run its commands' if 'skill_run' in tools else ''}, and follow its text. Load only what the task needs."
    )
    if "skill_search" in tools:
        yield "Not every skill is listed in full; skill_search finds the others."


def _describe_documents(tools: frozenset[str]) -> Iterator[str]:
    if {"skill_list_docs", "skill_select_docs"} <= tools:
        yield "Call skill_list_docs before skill_select_docs; select only what you need, all at once."
    elif "skill_select_docs" in tools:
        yield "Select only the documents that a skill's text sends you to, all at once."
    elif "skill_list_docs" in tools:
        yield "skill_list_docs names a skill's documents."


def _describe_commands(tools: frozenset[str], policy_note: str) -> Iterator[str]:
    if "skill_run" not in tools:
        if "skill_load" in tools:
            yield "Loading runs nothing: act with other tools, or take the skill as reference."
        return
    yield (
        "Commands start in the skill's folder. The user's files are in work/inputs: leave them as they are. Write"
        " results to $OUTPUT_DIR; print little."
    )
    yield "Pass files on by the refs in results (workspace://, artifact://); do not run again to see them."
    if "skill_exec" in tools:
        yield "Use skill_exec only for commands that ask questions or need a terminal."
    if policy_note:
        yield policy_note


def _describe_files(tools: frozenset[str]) -> Iterator[str]:
    if "read_file" in tools:
        yield "read_file takes refs and ranges of lines, skill://name/path too. Stop when you have what you need."
