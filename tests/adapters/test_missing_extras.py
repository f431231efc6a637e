"""An adapter whose package is not installed says which extra to install."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("adapter", "package", "extra"),
    [
        ("anthropic_worker", "anthropic", "anthropic"),
        ("openai_agents", "agents", "openai-agents"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
    ],
)
def test_the_message_names_the_extra(adapter: str, package: str, extra: str) -> None:
    program = f"""
import sys
sys.modules["{package}"] = None
try:
    import openskills.adapters.{adapter}
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    said = f"MissingExtra openskills.adapters.{adapter} needs an extra; install it with: "
    assert done.stdout == f"{said}pip install 'openskill-runtime[{extra}]'\n", done.stderr
