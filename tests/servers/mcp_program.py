"""An MCP server in plain JSON, honest or hostile: `python mcp_program.py SCENARIO.json [http]`.

A scenario has: `pages` (lists of entries of `skills/list`), `files` (text or {"blob": base64} by URI), `tools` (with
their `result`), `era` (`modern` or `legacy`), `on` (what happens instead of an answer, by method), `key`, `log`.
With `http` it prints the port that it listens on.
"""

import gzip
import json
import os
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CACHED = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}


class Server:
    """Answers messages as a scenario says."""

    def __init__(self, scenario: dict[str, Any]) -> None:
        self.scenario = scenario
        self.extensions: dict[str, Any] = {} if scenario.get("plain") else {"io.modelcontextprotocol/skills": {}}

    def answer(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """The response to a message, or None for a notification."""
        method: str = message.get("method", "")
        params: dict[str, Any] = message.get("params") or {}
        if self.scenario.get("log"):
            with open(self.scenario["log"], "a", encoding="utf-8") as log:
                log.write(f"{method} {params.get('uri', params.get('name', ''))}".strip() + "\n")
        if "id" not in message:
            return None
        found = self.find_result(method, params)
        if isinstance(found, int):
            error = {"code": found, "message": f"no {method} {params.get('uri', '')}"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
        return {"jsonrpc": "2.0", "id": message["id"], "result": found}

    def find_result(self, method: str, params: dict[str, Any]) -> dict[str, Any] | int:
        """The result of a method, or the code of an error."""
        capabilities: dict[str, Any] = {"tools": {}, "resources": {}, "extensions": self.extensions}
        modern = self.scenario.get("era", "modern") == "modern"
        match method:
            case "server/discover" if modern:
                return {**CACHED, "supportedVersions": ["2026-07-28"], "capabilities": capabilities}
            case "initialize" if not modern:
                info = {"name": "raw", "version": "1"}
                return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
            case "skills/list":
                return self.list_skills(params.get("cursor"))
            case "skills/get":
                known = [*self.scenario.get("unlisted", []), *self.scenario["pages"][0]]
                found = [entry for entry in known if entry["uri"] == params["uri"]]
                return {**CACHED, "skill": found[0]} if found else -32602
            case "resources/read" if params["uri"] in self.scenario["files"]:
                held = self.scenario["files"][params["uri"]]
                content = {"text": held} if isinstance(held, str) else held
                contents = [{"uri": params["uri"], "mimeType": "text/plain", **content}]
                return {**CACHED, "contents": contents * self.scenario.get("copies", 1)}
            case "tools/list":
                tools = [{key: one for key, one in tool.items() if key != "result"} for tool in self.scenario["tools"]]
                return {**CACHED, "tools": tools}
            case "tools/call":
                return self.call_tool(params)
            case _:
                return -32601

    def list_skills(self, cursor: str | None) -> dict[str, Any]:
        """One page; with `cursors` there is always another."""
        pages, number = self.scenario["pages"], int(cursor or 0)
        page: dict[str, Any] = {**CACHED, "skills": pages[number] if number < len(pages) else []}
        page["ttlMs"] = self.scenario.get("ttl", 0)
        match self.scenario.get("cursors"):
            case "endless":
                page["nextCursor"] = str(number + 1)
            case "same":
                page["nextCursor"] = "0"
            case _:
                page |= {"nextCursor": str(number + 1)} if number + 1 < len(pages) else {}
        return page

    def call_tool(self, params: dict[str, Any]) -> dict[str, Any] | int:
        """The result of a tool; an `echo` returns its arguments."""
        for tool in self.scenario["tools"]:
            if tool["name"] == params["name"]:
                said = {"content": [{"type": "text", "text": json.dumps(params.get("arguments"))}]}
                return {"resultType": "complete", **tool.get("result", said)}
        return -32602


def run_pipes(server: Server) -> None:
    """Serve stdin and stdout."""
    for line in sys.stdin:
        message = json.loads(line)
        match server.scenario.get("on", {}).get(message.get("method")):
            case "die":
                sys.stderr.write("the disk is on fire\n")
                sys.stderr.flush()
                os._exit(3)
            case "silent":
                continue
            case "stuck":
                while True:
                    time.sleep(60)
            case "huge":
                write("x" * (1 << 20), repeat=64)
            case "stray":
                write("hello\n", repeat=5000)
            case "flood":
                note = {"level": "info", "data": "x" * 200}
                write(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": note}) + "\n", 5_000)
            case "truncate":
                write('{"jsonrpc": "2.0", "id": 1, "resu')
                os._exit(0)
            case _:
                pass
        response = server.answer(message)
        if response is not None:
            write(json.dumps(response) + "\n")


def write(text: str, repeat: int = 1) -> None:
    """Write a text many times."""
    for _ in range(repeat):
        sys.stdout.write(text)
    sys.stdout.flush()


def run_http(server: Server) -> None:
    """Serve on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            key = server.scenario.get("key")
            if key and self.headers.get("Authorization") != f"Bearer {key}":
                return self.reply(401, b"{}")
            behaviour = server.scenario.get("on", {}).get(message.get("method"))
            if behaviour == "huge":
                return self.reply(200, b"x" * (64 << 20))
            if behaviour == "gzip":
                return self.reply(200, gzip.compress(b"x" * (64 << 20)), encoding="gzip")
            response = server.answer(message)
            return self.reply(200 if response else 202, json.dumps(response).encode() if response else b"")

        def do_GET(self) -> None:
            self.reply(405, b"")

        do_DELETE = do_GET  # noqa: N815

        def reply(self, status: int, body: bytes, encoding: str = "identity") -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Encoding", encoding)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        write(f"{listening.server_port}\n")
        listening.serve_forever()


def main() -> None:
    """Run the scenario of the first argument."""
    scenario = json.loads(Path(sys.argv[1]).read_bytes())
    if scenario.get("child"):
        started = subprocess.Popen(["sleep", "600"])
        Path(scenario["child"]).write_text(f"{os.getpid()} {started.pid}", "utf-8")
    server = Server(scenario)
    run_http(server) if sys.argv[2:] == ["http"] else run_pipes(server)


if __name__ == "__main__":
    main()
