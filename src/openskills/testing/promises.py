"""How promises are checked: one after the other, the first that is broken is said in a sentence."""

from collections.abc import Awaitable

from openskills.errors import InvalidArgument

EVERY_BYTE = bytes(range(256))
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + EVERY_BYTE * 3 + b"\r\n\xff\xfe\x00"


Kind = type[Exception] | tuple[type[Exception], ...]
"""An error that is expected, or several of which one is."""


async def kept(promise: object, checking: Awaitable[None]) -> None:
    """Await a check; what it raises says which promise was checked: its docstring."""
    said = (promise.__doc__ or "").strip()
    try:
        await checking
    except AssertionError as error:
        raise AssertionError(f"broken promise: {said} {error}") from error
    except BaseException as error:
        error.add_note(f"while checking the promise: {said}")
        raise


def expect(condition: bool, otherwise: str) -> None:
    """Raise `AssertionError` with what is the case when the condition is false."""
    if not condition:
        raise AssertionError(otherwise)


async def expect_refusal(call: Awaitable[object], otherwise: str, kind: Kind = InvalidArgument) -> None:
    """Raise `AssertionError` when a call is not refused with an error of this kind."""
    try:
        await call
    except kind:
        return
    names = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
    raise AssertionError(f"{otherwise}; {names} was expected")
