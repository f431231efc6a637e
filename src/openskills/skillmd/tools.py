"""`allowed-tools`: a list of patterns such as `Bash(git commit *)`, however it was written."""

from collections.abc import Sequence

from openskills.skillmd.value import Value


def read_tools(value: Value) -> tuple[str, ...]:
    """The patterns of `allowed-tools`, from a string (spaces or commas between them) or a list.

    Spaces and commas inside parentheses belong to the pattern. An unclosed parenthesis runs to the end.
    """
    if isinstance(value, str):
        return tuple(_split(value))
    if isinstance(value, Sequence):
        return tuple(tool for item in value if isinstance(item, str) for tool in _split(item))
    return ()


def _split(text: str) -> list[str]:
    if "(" not in text:
        return text.replace(",", " ").split()
    tools: list[str] = []
    depth = begin = 0
    for position, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth = max(0, depth - 1)
        elif depth == 0 and (character == "," or character.isspace()):
            tools.append(text[begin:position])
            begin = position + 1
    tools.append(text[begin:])
    return [tool.strip() for tool in tools if tool.strip()]
