"""Names of models."""

import subprocess
import sys
from pathlib import Path

import pytest

from openskills.agent.models.anthropic import AnthropicModel
from openskills.agent.models.model import ModelRequest, ModelResponse
from openskills.agent.models.open import ollama_base_url, open_model
from openskills.agent.models.openai import OpenAIModel
from openskills.agent.rules.model import RuleModel
from openskills.catalog.catalog import Catalog
from openskills.errors import InvalidArgument, MissingExtra, Unauthorized
from openskills.settings import Settings
from openskills.testing.model_server import ModelServer
from openskills.testing.models import ScriptedModel

SETTINGS = Settings.from_env({"OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-2"})


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("openai/gpt-5", OpenAIModel),
        ("openai/meta-llama/llama-4:free", OpenAIModel),
        ("anthropic/claude-opus-5-5", AnthropicModel),
    ],
)
def test_a_provider_and_a_name_are_its_model(name: str, kind: type[object]) -> None:
    model = open_model(name, SETTINGS)
    assert (type(model), model.name) == (kind, name)


@pytest.mark.parametrize(
    "form", ["{host}:{port}", "http://{host}:{port}", "http://{host}:{port}/v1/", "0.0.0.0:{port}", ":{port}"]
)
async def test_ollama_is_asked_at_its_host_and_gets_no_key_of_another_provider(form: str) -> None:
    with ModelServer(["Hello."]) as server:
        host, port = server.openai_url.removeprefix("http://").removesuffix("/v1").split(":")
        settings = Settings.from_env({"OLLAMA_HOST": form.format(host=host, port=port), "OPENAI_API_KEY": "sk-1"})
        model = open_model("ollama/qwen3:8b", settings)
        events = [event async for event in model.stream(ModelRequest([{"role": "user", "content": "hi"}]))]
        await model.close()
    assert (model.name, events[-1]) == ("ollama/qwen3:8b", ModelResponse("Hello.", model="qwen3:8b"))
    (request,) = server.requests
    assert (request.path, request.body["model"]) == ("/v1/chat/completions", "qwen3:8b")
    assert "sk-1" not in str(request.headers)


def test_ollama_is_on_this_machine_by_default() -> None:
    assert ollama_base_url(Settings.from_env({})) == "http://localhost:11434/v1"
    assert ollama_base_url(Settings.from_env({"OLLAMA_HOST": "box"})) == "http://box:11434/v1"
    assert ollama_base_url(Settings.from_env({"OLLAMA_HOST": "https://box/api/v1"})) == "https://box/api/v1"


def test_options_go_to_the_model() -> None:
    with pytest.raises(InvalidArgument, match="base_url"):
        open_model("openai/gpt-5", SETTINGS, base_url="nowhere")


def test_rules_need_a_catalog_and_nothing_else(tmp_path: Path) -> None:
    catalog = Catalog.from_paths(tmp_path)
    assert isinstance(open_model("rule", SETTINGS, catalog=catalog), RuleModel)
    with pytest.raises(InvalidArgument, match="model: rule needs the option `catalog`"):
        open_model("rule", SETTINGS)


def factory(settings: Settings, *, suffix: str) -> ScriptedModel:
    return ScriptedModel([], name=settings.environment["MINE"] + suffix)


def test_a_factory_of_ones_own_is_called_with_the_settings() -> None:
    settings = Settings.from_env({"MINE": "my-model"})
    assert open_model("tests.agent.models.test_open:factory", settings, suffix="-1").name == "my-model-1"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gpt-5", r"did you mean openai/gpt-5\?"),
        ("claude-opus-5-5", r"did you mean anthropic/claude-opus-5-5\?"),
        ("mistral/large", "use openai/NAME .*OPENAI_BASE_URL.*, ollama/NAME, rule .*package.module:factory"),
        ("ollama/", "use openai/NAME"),
        ("openai/", "use openai/NAME"),
        ("", "use openai/NAME"),
        ("no_such_module:make", "cannot import"),
        ("json:no_such_thing", "has no callable 'no_such_thing'"),
    ],
)
def test_a_name_that_means_nothing_is_refused_with_what_there_is(name: str, hint: str) -> None:
    with pytest.raises(InvalidArgument, match=f"model: .*{hint}"):
        open_model(name, SETTINGS)


@pytest.mark.parametrize(("name", "package"), [("openai/x", "openai"), ("anthropic/x", "anthropic")])
def test_a_provider_whose_package_is_not_installed_is_reported(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"openskill-runtime\[{package}\]"):
        open_model(name, SETTINGS)


def test_a_provider_without_a_key_is_reported() -> None:
    with pytest.raises(Unauthorized, match="OPENAI_API_KEY"):
        open_model("openai/gpt-5", Settings.from_env({}))


def test_choosing_imports_no_client_that_was_not_chosen() -> None:
    script = (
        "import sys; from openskills.agent.models.open import open_model; from openskills.settings import Settings\n"
        "assert not {'openai', 'anthropic', 'httpx2'} & set(sys.modules)\n"
        "open_model('openai/gpt-5', Settings.from_env({'OPENAI_API_KEY': 'k'}))\n"
        "assert 'openai' in sys.modules and 'anthropic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
