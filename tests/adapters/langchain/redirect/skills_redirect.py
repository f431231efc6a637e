"""A plugin for pytest that puts our `SkillsMiddleware` in the place of deepagents' own, for deepagents' own tests.

    PYTHONPATH=tests/adapters/langchain/redirect python -m pytest -p skills_redirect CHECKOUT/libs/deepagents/tests/...

It is not part of the package `tests`, because deepagents' tests are called so, too.
"""

import asyncio
import inspect
from typing import Any

import deepagents.graph
import deepagents.middleware
import deepagents.middleware.skills
import pytest

from openskills.adapters.langchain.middleware import SkillsMiddleware

PLACES: tuple[Any, ...] = (deepagents.middleware.skills, deepagents.middleware, deepagents.graph)
"""Every module that has the name; `graph` takes it when it is imported."""


def pytest_configure(config: pytest.Config) -> None:
    """Put it there before any test is imported, and know the marker of a plugin that may be missing."""
    for place in PLACES:
        place.SkillsMiddleware = SkillsMiddleware
    config.addinivalue_line("markers", "asyncio: a test to be awaited")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Await tests that are to be awaited, so that no other plugin is needed for it."""
    test: Any = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    names = inspect.signature(test).parameters
    asyncio.run(test(**{name: value for name, value in pyfuncitem.funcargs.items() if name in names}))
    return True
