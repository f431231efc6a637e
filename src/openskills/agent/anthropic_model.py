"""Models behind Anthropic's Messages API."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from openskills.agent.model import ModelEvent, ModelRequest, TextDelta
from openskills.agent.retrying import Retrying
from openskills.agent.wire.anthropic_answer import AnthropicAnswer
from openskills.agent.wire.anthropic_caching import marked
from openskills.agent.wire.anthropic_request import request_body, stable_blocks
from openskills.agent.wire.anthropic_thoughts import Thoughts
from openskills.agent.wire.asking import Heard, asked
from openskills.agent.wire.endpoint import checked_key, checked_url
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
        self._provider = Provider(self.name, url.host, [key, token])
        self._thoughts = Thoughts()
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
        heard_so_far = AnthropicAnswer(self._model)
        body = request_body(self._model, request, self._max_output_tokens)
        async with self._asked(request, body) as heard:
            async for event in heard.events:
                if text := heard_so_far.add(event):
                    yield TextDelta(text)
            if not heard_so_far.is_complete:
                raise self._provider.cut("it broke off")
        if text := heard_so_far.end():
            yield TextDelta(text)
        answer = heard_so_far.answer(request)
        self._thoughts.keep(request, body, answer, heard_so_far.blocks)
        yield answer

    def _asked(self, request: ModelRequest, body: Mapping[str, Any]) -> AbstractAsyncContextManager[Heard]:
        sent = self._thoughts.put_back(body)
        if self._cache:
            sent = marked(sent, stable_blocks(request.messages))
        extra = dict(self._extra)
        if request.json_schema is not None:
            wanted = {"type": "json_schema", "schema": self._promised(request.json_schema)}
            extra["output_config"] = {**extra.get("output_config", {}), "format": wanted}
        create: Any = self._client.messages.with_streaming_response.create
        return asked(create(**sent, extra_body=extra), self._events, self._errors, self._limits, self._provider)

    def _promised(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._schema(dict(schema))
        except (ValueError, TypeError, AttributeError, AssertionError):
            # More than the client can put into the form that the API promises to keep; the API has the last word.
            return dict(schema)
