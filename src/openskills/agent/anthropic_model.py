"""Models behind Anthropic's Messages API."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any

from openskills.agent.model import ModelEvent, ModelRequest, TextDelta
from openskills.agent.retrying import Retrying
from openskills.agent.wire.anthropic_answer import AnthropicAnswer
from openskills.agent.wire.anthropic_caching import marked
from openskills.agent.wire.anthropic_request import request_body, stable_blocks
from openskills.agent.wire.anthropic_thoughts import thoughts, with_thoughts
from openskills.agent.wire.asking import asked
from openskills.agent.wire.endpoint import checked_key, checked_url, place_of, secrets_in
from openskills.agent.wire.failures import Provider
from openskills.agent.wire.pacing import TimeLimits
from openskills.errors import MissingExtra, Unauthorized
from openskills.settings import Settings

BASE_URL = "https://api.anthropic.com"


class AnthropicModel:
    """A model by its name at Anthropic's server, or at one that speaks its Messages API; implements `Model`.

    `max_output_tokens` is the limit of answers to requests that name none: the API demands one. `cache` marks where a
    request may be cut for the prompt cache. `extra` is added to the body of every request
    (`{"output_config": {"effort": "low"}}`), `headers` to its headers. A request's temperature is not sent: the API
    refuses it.

    Raises `MissingExtra` without the package `anthropic`, `Unauthorized` without a key where one is needed, and
    `InvalidArgument` for a URL that is none.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        auth_token: str | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        max_output_tokens: int = 16_384,
        cache: bool = True,
        limits: TimeLimits | None = None,
        retrying: Retrying | None = None,
    ) -> None:
        try:
            import anthropic
        except ImportError:
            raise MissingExtra("anthropic", "a model behind Anthropic's API") from None
        url = checked_url(base_url or BASE_URL)
        key = checked_key(api_key, "ANTHROPIC_API_KEY")
        token = checked_key(auth_token, "ANTHROPIC_AUTH_TOKEN")
        if not key and not token and not base_url:
            raise Unauthorized(f"anthropic/{model} needs a key; set ANTHROPIC_API_KEY")
        self._model = model
        self._max_output_tokens = max_output_tokens
        self._cache = cache
        self._extra = dict(extra or {})
        self._limits = limits or TimeLimits()
        self._retrying = retrying or Retrying()
        self._provider = Provider(self.name, place_of(url), [key, token, *secrets_in(headers or {})])
        self._schema = anthropic.transform_schema
        self._errors = anthropic.AnthropicError
        self._events = anthropic.AsyncStream[object]
        self._client = anthropic.AsyncAnthropic(
            api_key=key or (None if token else "no-key"),
            auth_token=None if key else token or None,
            base_url=str(url),
            default_headers=headers,
            timeout=self._limits.for_client(),
            max_retries=0,
            # Spans are ours to make, with what our settings allow in them.
            open_telemetry=False,
        )
        # Asked for here, because the client imports what is behind it, which takes its time.
        self._create: Any = self._client.messages.with_streaming_response.create

    @classmethod
    def from_settings(cls, model: str, settings: Settings, **options: Any) -> "AnthropicModel":
        """The model with what `ANTHROPIC_API_KEY`, `ANTHROPIC_AUTH_TOKEN` and `ANTHROPIC_BASE_URL` say.

        `options` that name others win.
        """
        env = settings.environment
        named: dict[str, Any] = {
            "api_key": env.get("ANTHROPIC_API_KEY"),
            "auth_token": env.get("ANTHROPIC_AUTH_TOKEN"),
            "base_url": env.get("ANTHROPIC_BASE_URL"),
        }
        return cls(model, **{**named, **options})

    @property
    def name(self) -> str:
        """How it is called in logs and results."""
        return f"anthropic/{self._model}"

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """See `Model.stream`."""
        return self._retrying.stream(lambda: self._attempt(request), self.name)

    async def close(self) -> None:
        """Give back its connections."""
        await self._client.close()

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        answer = AnthropicAnswer(self._model)
        body = with_thoughts(request_body(self._model, request, self._max_output_tokens))
        sent = self._create(**self._marked(request, body), extra_body=self._with_schema(request))
        async with asked(
            sent, self._events, self._errors, self._limits, self._provider, lambda: answer.is_complete
        ) as heard:
            async for event in heard.events:
                if text := answer.add(event):
                    yield TextDelta(text)
            if not answer.is_complete:
                raise self._provider.cut("it broke off")
        if text := answer.end():
            yield TextDelta(text)
        whole = answer.answer(request)
        yield replace(whole, thinking=thoughts(body, whole, answer.blocks))

    def _marked(self, request: ModelRequest, body: dict[str, Any]) -> dict[str, Any]:
        return marked(body, stable_blocks(request.messages)) if self._cache else body

    def _with_schema(self, request: ModelRequest) -> dict[str, Any]:
        if request.json_schema is None:
            return self._extra
        wanted = {"type": "json_schema", "schema": self._promised(request.json_schema)}
        return {**self._extra, "output_config": {**self._extra.get("output_config", {}), "format": wanted}}

    def _promised(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._schema(dict(schema))
        except (ValueError, TypeError, AttributeError, AssertionError):
            # More than the client can put into the form that the API promises to keep; the API has the last word.
            return dict(schema)
