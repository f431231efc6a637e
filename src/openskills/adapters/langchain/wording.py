"""What the model is told about loading and unloading; sentences of the design document."""

from collections.abc import Sequence
from difflib import get_close_matches

NAMED = 50
"""How many skills are named one by one when there is none of a name."""

LONGEST_ECHO = 100
"""How much is repeated of a name that means nothing."""

GIVEN_BACK = (
    "You loaded these skills earlier in this conversation. The messages that held their instructions are no longer in "
    "your context, so here they are again:"
)
REREAD = "The files of these skills have changed since you loaded them. From now on follow their new instructions:"
INHERITED = "The agent that gave you this task works by these skills. They are loaded for you as well:"


def unknown(name: str, available: Sequence[str], unread: Sequence[str] = ()) -> str:
    """There is no such skill. Of many others the most similar are named; so are sources that could not be read."""
    begin = f"Error: Skill '{_cut(name)}' not found. Available skills: "
    end = f". Some skills may be missing: {'; '.join(unread)}" if unread else ""
    if len(available) <= NAMED:
        return f"{begin}{', '.join(available)}{end}"
    near = get_close_matches(_cut(name), available, n=10, cutoff=0.4) or available[:10]
    more = len(available) - len(near)
    return f"{begin}{', '.join(near)}, and {more} more in the skills list{end}"


def already_loaded(name: str) -> str:
    """Nothing to do."""
    return f"Skill '{name}' is already loaded. Its instructions are already active."


def limit_reached(name: str, loaded: Sequence[str], limit: int) -> str:
    """No slot is free."""
    return (
        f"Error: Cannot load skill '{name}'. Maximum number of simultaneously loaded skills reached ({limit}). "
        f"Currently loaded: {', '.join(loaded)}. "
        f'Use `unload_skill("skill-name")` to unload a skill you no longer need, then retry loading.'
    )


def unreadable(path: str, error: str | None) -> str:
    """The backend did not give the file."""
    return f"Error: Failed to read skill file at {path}: {error}"


def too_big(path: str, limit: int) -> str:
    """The file is over the limit."""
    return f"Error: Skill file at {path} exceeds maximum size ({limit} bytes)"


def undecodable(error: UnicodeDecodeError) -> str:
    """The file is not UTF-8."""
    return f"Error: Failed to decode skill file: {error}"


def not_loaded(name: str, loaded: Sequence[str]) -> str:
    """There is nothing to unload."""
    return (
        f"Error: Skill '{_cut(name)}' is not currently loaded. "
        f"Currently loaded skills: {', '.join(loaded) if loaded else '(none)'}."
    )


def unloaded(name: str, remaining: Sequence[str], limit: int, *, marked: bool = True) -> str:
    """A slot is free again. With `marked` the list of skills shows what is loaded."""
    so = "will no longer be marked as [Loaded] in the skills list" if marked else "are no longer to be followed"
    return (
        f"Skill '{name}' has been unloaded. Currently loaded: {len(remaining)}/{limit} "
        f"({limit - len(remaining)} slot(s) available). Note: The skill's instructions from the previous load_skill "
        f"call are still in the conversation history but {so}."
    )


def gone(names: Sequence[str]) -> str:
    """Skills whose files are no longer there, or for which there is no longer a slot."""
    return (
        f"These skills are no longer loaded, because their files are gone or fewer skills may be loaded now: "
        f"{', '.join(names)}. Do not follow their instructions any more."
    )


def changed(names: Sequence[str]) -> str:
    """Skills whose new text is too long to be shown without being asked for."""
    return (
        f"The files of these skills have changed, and they are no longer loaded: {', '.join(names)}. "
        'Use `load_skill("skill-name")` to read their new instructions if you need them.'
    )


def manual_only(name: str) -> str:
    """Only a person may start this skill."""
    return (
        f"Error: Skill '{name}' is for manual use only and must not be loaded by the model. "
        "Ask the user to start it if it is needed."
    )


def state_line(loaded: Sequence[str], limit: int) -> str:
    """What is loaded now, for listings that do not show it."""
    return f"Loaded skills: {', '.join(loaded) if loaded else '(none)'} ({len(loaded)}/{limit})."


def forgotten(names: Sequence[str]) -> str:
    """Skills that left the context and could not be given back."""
    return (
        f"These skills are no longer loaded, because their instructions left your context: {', '.join(names)}. "
        'Use `load_skill("skill-name")` to load one again if you need it.'
    )


def _cut(name: str) -> str:
    """A name that a model wrote, which may be anything."""
    return name if len(name) <= LONGEST_ECHO else f"{name[:LONGEST_ECHO]}..."
