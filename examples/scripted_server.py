"""A server that speaks the OpenAI chat API, and gives answers that were written beforehand. For `openai_client.py`."""

import json
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def scripted_server(answers: Sequence[dict[str, Any]]) -> Generator[str]:
    """Serve on a free port of this machine, one answer for each request; yields the base URL for a client."""
    remaining = iter(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Read a request to its end, and send the next answer."""
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps(completion(next(remaining, says("Nothing more was written for me to say.")))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing: the example talks."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()


def says(text: str) -> dict[str, Any]:
    """The model answers the user."""
    return {"role": "assistant", "content": text}


def calls(*functions: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """The model calls tools, all in one message."""
    tool_calls = [
        {"id": f"{name}-{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for number, (name, arguments) in enumerate(functions)
    ]
    return {"role": "assistant", "content": None, "tool_calls": tool_calls}


def completion(message: dict[str, Any]) -> dict[str, Any]:
    """A message as the API sends it."""
    reason = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    return {"id": "scripted", "object": "chat.completion", "created": 0, "model": "scripted", "choices": [choice]}
