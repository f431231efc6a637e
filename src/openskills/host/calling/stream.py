"""The events of an answer, from its pieces."""

from collections.abc import AsyncGenerator, AsyncIterator

from openskills.errors import BadSkillOutput
from openskills.host.calling.connection import Answered, Connection
from openskills.host.calling.reading import excerpt, read_result
from openskills.host.calling.retries import is_json
from openskills.host.calling.server_events import EventReader
from openskills.host.calling.stream_events import StreamEvent, ended, read_event

_STREAM = "text/event-stream"


async def events_in(connection: Connection, answer: Answered[AsyncIterator[bytes]]) -> AsyncGenerator[StreamEvent]:
    """The events of a stream; of a result in JSON, which is what a refusal is, that one.

    Raises `BadSkillOutput` for every other answer.
    """
    if is_json(answer.headers):
        yield ended(read_result(await connection.whole(answer.body), status=answer.status))
        return
    kind = answer.headers.get("content-type", "")
    if answer.status != 200 or kind.partition(";")[0].strip().lower() != _STREAM:
        body = await connection.whole(answer.body)
        message = f"{connection.base} answered {answer.status} with {kind[:50]!r} instead of a stream of events"
        raise BadSkillOutput(message, status=answer.status, excerpt=excerpt(body))
    reader = EventReader()
    async for piece in answer.body:
        for event in reader.feed(piece):
            yield read_event(event)
