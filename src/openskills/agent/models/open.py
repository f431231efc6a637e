"""Open a model by name; only the chosen provider is imported."""

import re
from typing import Any, cast

from openskills.agent.models.model import Model
from openskills.arguments import check_arguments, find_plugin, import_factory
from openskills.errors import InvalidArgument
from openskills.settings import Settings

_PROVIDERS = {
    "openai": "openskills.agent.models.openai:OpenAIModel.from_settings",
    "anthropic": "openskills.agent.models.anthropic:AnthropicModel.from_settings",
}
OLLAMA_URL = "http://localhost:11434/v1"
_RULE = "openskills.agent.rules.model:RuleModel"
_FACTORY = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_][\w.]*", re.ASCII)
_LIKELY = (("openai", re.compile(r"gpt-|o\d|chatgpt")), ("anthropic", re.compile(r"claude")))
_KNOWN = (
    "use openai/NAME (also for compatible servers, with OPENAI_BASE_URL), anthropic/NAME, ollama/NAME, rule (not an "
    "LLM, needs no network), or your own factory as package.module:factory"
)


@check_arguments
def open_model(name: str, settings: Settings, **options: Any) -> Model:
    """Open a model by name: `openai/gpt-5`, `anthropic/claude-opus-5-5`, `ollama/qwen3`, `rule`, or
    `package.module:factory`.

    `ollama` is the server at `OLLAMA_HOST`, by default on this machine. `options` are passed to `OpenAIModel` or
    `AnthropicModel`; `rule` needs `catalog`; a factory is called with `settings` and `options`. For another
    `PROVIDER/NAME`, the entry point PROVIDER in the group `openskills.models` is called with NAME, `settings` and
    `options`. Raises `InvalidArgument` for an unknown name, `MissingExtra` if the provider's package is not installed,
    `Unauthorized` without a key.
    """
    provider, slash, model = name.partition("/")
    if slash and provider in _PROVIDERS and model.strip():
        return cast("Model", import_factory(_PROVIDERS[provider], "model")(model.strip(), settings, **options))
    if provider == "ollama" and model.strip():
        from openskills.agent.models.openai import OpenAIModel

        named: dict[str, Any] = {"base_url": ollama_base_url(settings), "provider": "ollama"}
        return OpenAIModel(model.strip(), **{**named, **options})
    if name == "rule":
        if "catalog" not in options:
            raise InvalidArgument("model", "rule needs the option `catalog`")
        return cast("Model", import_factory(_RULE, "model")(**options))
    if _FACTORY.fullmatch(name):
        return cast("Model", import_factory(name, "model")(settings, **options))
    if (plugin := find_plugin("openskills.models", provider, "model")) is not None:
        return cast("Model", plugin(model.strip(), settings, **options))
    likely = next((provider for provider, words in _LIKELY if words.match(name)), None)
    hint = f"did you mean {likely}/{name}?" if likely else _KNOWN
    raise InvalidArgument("model", f"unknown model {name!r}; {hint}")


def ollama_base_url(settings: Settings) -> str:
    """The URL of Ollama's OpenAI-compatible API: `OLLAMA_HOST`, which may be a host, `host:port` or a URL."""
    host = settings.environment.get("OLLAMA_HOST", "").strip().rstrip("/")
    if not host:
        return OLLAMA_URL
    scheme, separator, rest = host.rpartition("://")
    authority, _, path = rest.partition("/")
    # Servers listen on 0.0.0.0; clients reach them on the loopback address.
    authority = authority.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
    if not separator and not re.search(r":\d+$", authority):
        authority = f"{authority or '127.0.0.1'}:11434"
    return f"{scheme or 'http'}://{authority if authority[0] != ':' else '127.0.0.1' + authority}/{path or 'v1'}"
