"""Models behind OpenAI's chat completions API: OpenAI's own, and those of every server that speaks it."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from openskills.agent.model import ModelEvent, ModelRequest, TextDelta
from openskills.agent.retrying import AttemptFailed, Retrying
from openskills.agent.wire.asking import asked
from openskills.agent.wire.endpoint import checked_key, checked_url, place_of, secrets_in
from openskills.agent.wire.failures import Provider
from openskills.agent.wire.openai_answer import OpenAIAnswer
from openskills.agent.wire.openai_request import Dialect, request_body
from openskills.agent.wire.pacing import TimeLimits
from openskills.errors import MissingExtra, Unauthorized
from openskills.settings import Settings

BASE_URL = "https://api.openai.com/v1"
_KEYLESS = "no-key"


class OpenAIModel:
    """A model by its name at a server that speaks OpenAI's chat completions API; implements `Model`.

    Without `base_url` it is OpenAI's own server, which needs a key; other servers may do without. `extra` is added to
    the body of every request (`{"reasoning_effort": "low"}`), `headers` to its headers. What a server does not know
    (`stream_options`, `max_completion_tokens`, a schema for the answer) is left out after it has said so once.

    Raises `MissingExtra` without the package `openai`, `Unauthorized` without a key where one is needed, and
    `InvalidArgument` for a URL that is none.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        organization: str | None = None,
        project: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        limits: TimeLimits | None = None,
        retrying: Retrying | None = None,
    ) -> None:
        try:
            import openai
        except ImportError:
            raise MissingExtra("openai", "a model behind OpenAI's API") from None
        url = checked_url(base_url or BASE_URL)
        key = checked_key(api_key, "OPENAI_API_KEY")
        if not key and not base_url:
            raise Unauthorized(f"openai/{model} needs a key; set OPENAI_API_KEY, or OPENAI_BASE_URL for another server")
        self._model = model
        self._extra = dict(extra or {})
        self._limits = limits or TimeLimits()
        self._retrying = retrying or Retrying()
        self._dialect = Dialect()
        self._provider = Provider(self.name, place_of(url), [key, *secrets_in(headers or {})])
        self._errors = openai.OpenAIError
        self._events = openai.AsyncStream[object]
        self._client = openai.AsyncOpenAI(
            api_key=key or _KEYLESS,
            base_url=str(url),
            organization=organization,
            project=project,
            default_headers=headers,
            timeout=self._limits.for_client(),
            max_retries=0,
        )
        # Asked for here, because the client imports what is behind it, which takes its time.
        self._create: Any = self._client.chat.completions.with_streaming_response.create

    @classmethod
    def from_settings(cls, model: str, settings: Settings, **options: Any) -> "OpenAIModel":
        """The model with key and server of `OPENAI_API_KEY` and `OPENAI_BASE_URL`, unless `options` name others."""
        env = settings.environment
        named: dict[str, Any] = {
            "api_key": env.get("OPENAI_API_KEY"),
            "base_url": env.get("OPENAI_BASE_URL"),
            "organization": env.get("OPENAI_ORG_ID"),
            "project": env.get("OPENAI_PROJECT_ID"),
        }
        return cls(model, **{**named, **options})

    @property
    def name(self) -> str:
        """How it is called in logs and results."""
        return f"openai/{self._model}"

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """See `Model.stream`."""
        return self._retrying.stream(lambda: self._attempt(request), self.name)

    async def close(self) -> None:
        """Give back its connections."""
        await self._client.close()

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        while True:
            dialect = self._dialect
            body = request_body(self._model, request, dialect)
            try:
                async with aclosing(self._answer(request, body)) as events:
                    async for event in events:
                        yield event
            except AttemptFailed as failure:
                simpler = dialect.after_refusal(body, failure.said)
                if simpler is None or simpler == dialect:
                    raise
                self._dialect = simpler
            else:
                return

    async def _answer(self, request: ModelRequest, body: dict[str, Any]) -> AsyncGenerator[ModelEvent]:
        answer = OpenAIAnswer(self._model)
        sent = self._create(**body, extra_body=self._extra)
        async with asked(
            sent, self._events, self._errors, self._limits, self._provider, lambda: answer.is_complete
        ) as heard:
            async for chunk in heard.events:
                if text := answer.add(chunk):
                    yield TextDelta(text)
            if not answer.is_complete and not heard.source.said_done:
                raise self._provider.cut("it broke off")
        if text := answer.end():
            yield TextDelta(text)
        yield answer.answer(request)
