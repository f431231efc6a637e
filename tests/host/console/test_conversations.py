"""The screen for conversations in a real browser: live turns, approvals, reconnects, requests, hostile texts."""

import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

from openskills.agent import ModelResponse, ToolCall, Usage
from openskills.testing.model_server import ModelReply, ModelServer, ModelServerRequest
from tests.host.console.conftest import ConsoleHost, check_accessibility, open_console
from tests.host.hosting import eventually, settings_in

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'{{ 7*7 }}\u202eevil\x1b[2J[x](javascript:alert(3))"
SKILL = "---\nname: shout\ndescription: Shouts a text.\n---\n# Shout\n\n    python3 scripts/shout.py hello\n"
SCRIPT = """\
import pathlib, sys
text = " ".join(sys.argv[1:]).upper()
pathlib.Path("out").mkdir(exist_ok=True)
pathlib.Path("out/shout <b>.txt").write_text(text)
print(text)
"""


def runs_shout(word: str = "hello", text: str = "") -> ModelResponse:
    load = ToolCall("call_1Ab", "skill_load", json.dumps({"skill": "shout"}))
    run = {"skill": "shout", "command": f"python3 scripts/shout.py '{word}'", "output_files": ["out/*"]}
    calls = (load, ToolCall("call_2Ab", "skill_run", json.dumps(run)))
    return ModelResponse(text, calls, Usage(1_000, 20, 800), "tool_calls")


@dataclass
class Talk:
    """A host whose model is a server that follows a script."""

    console: ConsoleHost
    server: ModelServer

    def open(self, **options: Any) -> Page:
        """A new conversation in a new browser."""
        page = self.console.page("/console/conversations", **options)
        page.get_by_role("button", name=re.compile("New conversation|新对话")).click()
        page.wait_for_url("**/console/conversations/2*")
        return page

    def say(self, page: Page, text: str) -> None:
        page.locator("#text").fill(text)
        page.locator("#text").press("Control+Enter")


@contextmanager
def talking(directory: Path, browser: Browser, script: Any, **changes: Any) -> Generator[Talk]:
    folder = directory / "skills" / "shout" / "scripts"
    if not folder.exists():
        folder.mkdir(parents=True)
        (folder.parent / "SKILL.md").write_text(SKILL)
        (folder / "shout.py").write_text(SCRIPT)
    with ModelServer(script) as server:
        environment = {**settings_in(directory).environment, **server.environment}
        given: dict[str, Any] = {"model": "openai/scripted", "environment": environment, **changes}
        with open_console(directory, browser, **given) as console:
            yield Talk(console, server)


def test_a_turn_is_shown_as_it_happens_in_two_browsers_at_once(tmp_path: Path, browser: Browser, axe: str) -> None:
    answer = "The text is **HELLO**. " + "And so on. " * 40
    slow = ModelReply(ModelResponse(answer, (), Usage(1_200, 8, 900)), piece=8, between=0.05)
    with talking(tmp_path, browser, [runs_shout(), slow]) as talk:
        page = talk.open()
        other = talk.console.page(page.url.removeprefix(talk.console.url), link=None)
        other.goto(page.url)
        talk.say(page, "Shout hello, please")
        for one in (page, other):
            expect(one.locator("#partial-text")).to_contain_text("The text", timeout=20_000)
            expect(one.locator(".message.user .plain-text")).to_have_text("Shout hello, please")
        for one in (page, other):
            expect(one.locator(".message.assistant .markdown strong")).to_have_text("HELLO", timeout=20_000)
            expect(one.locator("#partial")).to_be_hidden()
            expect(one.locator("details.tool")).to_have_count(2)
            expect(one.locator("#conversation-side")).to_contain_text("shout")
            expect(one.locator("#conversation-head")).to_contain_text("77 % from the prompt cache")
        expect(page.locator("#text")).to_have_value("")
        page.locator("details.tool").last.click()
        expect(page.locator("details.tool pre").last).to_contain_text("HELLO")
        with page.expect_download() as started:
            page.locator("#conversation-side").get_by_role("link", name="out/shout <b>.txt").click()
        assert Path(started.value.path()).read_text() == "HELLO"
        check_accessibility(page, axe)
        page.reload()
        expect(page.locator(".message.assistant .markdown")).to_contain_text("The text is HELLO.")
        expect(page.locator(".message")).to_have_count(5)


def test_a_command_waits_for_the_button(tmp_path: Path, browser: Browser, axe: str) -> None:
    with talking(tmp_path, browser, [runs_shout(HOSTILE[:20]), "fine"]) as talk:
        page = talk.console.page("/console/conversations")
        page.get_by_label("Approve commands").check()
        page.get_by_role("button", name="New conversation").click()
        talk.say(page, "Shout")
        expect(page.locator(".approval pre")).to_contain_text("<img src=x", timeout=20_000)
        check_accessibility(page, axe)
        page.get_by_role("button", name="Allow once").click()
        expect(page.locator(".message.assistant .markdown")).to_have_text("fine", timeout=20_000)
        expect(page.locator(".approval")).to_have_count(0)


def test_hostile_texts_are_inert_everywhere(tmp_path: Path, browser: Browser, axe: str) -> None:
    answer = ModelResponse(f"# {HOSTILE}\n\n{HOSTILE}\n\n```\n{HOSTILE}\n```")
    with talking(tmp_path, browser, [runs_shout("x", text=HOSTILE), answer]) as talk:
        page = talk.open()
        page.locator("input[type=file]").set_input_files(
            {"name": "<img src=x onerror=alert(1)>.csv", "mimeType": "text/html", "buffer": HOSTILE.encode()}
        )
        talk.say(page, HOSTILE)
        expect(page.locator(".message.assistant .markdown").last).to_contain_text("evil", timeout=20_000)
        eventually(lambda: page.locator("#conversation-side").get_by_text("uploads/").count() == 1)
        for path in ("", "/requests/1", "/requests/2"):
            if path:
                page.goto(page.url.partition("/requests")[0] + path)
            assert page.locator("main img:not(.thumbnail), main script, main a[href^='javascript']").count() == 0
            assert "\u202e" not in page.locator("main").inner_text()
            check_accessibility(page, axe)
        page.goto(talk.console.url + "/console/conversations")
        assert page.locator("main img, main script").count() == 0


def test_the_requests_can_be_stepped_through_without_scripts(tmp_path: Path, browser: Browser, axe: str) -> None:
    with talking(tmp_path, browser, [runs_shout(), "one", "two"]) as talk:
        page = talk.open()
        talk.say(page, "first")
        expect(page.locator(".message.assistant .markdown")).to_have_text("one", timeout=20_000)
        expect(page.get_by_role("button", name="Send")).to_be_visible()
        talk.say(page, "second")
        expect(page.locator(".message.assistant .markdown").last).to_have_text("two", timeout=20_000)
        plain = talk.console.page(java_script_enabled=False)
        plain.goto(page.url)
        expect(plain.locator(".message.assistant .markdown").last).to_have_text("two")
        plain.get_by_role("link", name="What the model saw").click()
        expect(plain.locator("h1")).to_have_text("Request 3 of 3: what the model saw")
        expect(plain.locator(".element.added ins").last).to_have_text("second")
        plain.get_by_role("link", name="Previous").click()
        expect(plain.locator(".element.same .title").first).to_have_text("model")
        expect(plain.locator(".element.added ins").last).to_contain_text("HELLO")
        plain.go_back()
        expect(plain.locator("h1")).to_have_text("Request 3 of 3: what the model saw")
        page.goto(plain.url)
        check_accessibility(page, axe)


def test_a_message_can_be_sent_without_scripts(tmp_path: Path, browser: Browser) -> None:
    with talking(tmp_path, browser, ["fine"]) as talk:
        page = talk.open(java_script_enabled=False)
        page.locator("#text").fill("hello")
        page.get_by_role("button", name="Send").click()
        eventually(lambda: bool(page.reload()) and page.locator(".message.assistant .markdown").count() == 1)
        assert page.locator(".message.assistant .markdown").inner_text() == "fine"


def test_a_lost_connection_resumes_without_gaps(tmp_path: Path, browser: Browser) -> None:
    text = " ".join(f"word{number}" for number in range(200))
    with talking(tmp_path, browser, [ModelReply(ModelResponse(text), piece=20, between=0.02)]) as talk:
        page = talk.open()
        talk.say(page, "talk")
        for _ in range(3):
            before = len(page.locator("#partial-text").text_content() or "")
            eventually(lambda before=before: len(page.locator("#partial-text").text_content() or "") > before + 50)
            page.context.set_offline(True)
            page.evaluate("performance.now()")
            page.context.set_offline(False)
            shown = page.locator("#partial-text").text_content() or ""
            assert text.startswith(shown)
        expect(page.locator(".message.assistant .markdown")).to_have_text(text, timeout=30_000)
        expect(page.locator(".message")).to_have_count(3)


def test_a_turn_can_be_stopped_and_a_conversation_deleted(tmp_path: Path, browser: Browser) -> None:
    def reply(_: ModelServerRequest) -> ModelReply:
        return ModelReply(ModelResponse("never " * 1000), between=0.05)

    with talking(tmp_path, browser, reply) as talk:
        page = talk.open()
        talk.say(page, "talk")
        expect(page.locator("#partial-text")).to_contain_text("never", timeout=20_000)
        page.get_by_role("button", name="Stop").click()
        expect(page.locator("#conversation-head .tag")).to_have_text("cancelled", timeout=20_000)
        page.on("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Delete").click()
        expect(page.locator(".empty")).to_contain_text("No conversations yet")


def test_a_turn_that_a_restart_interrupts_is_shown_and_goes_on(tmp_path: Path, browser: Browser) -> None:
    def reply(asked: ModelServerRequest) -> ModelReply:
        is_first = len(asked.body["messages"]) == 2
        return ModelReply(ModelResponse("never " * 1000 if is_first else "done"), between=0.05 if is_first else 0)

    with talking(tmp_path, browser, reply) as talk:
        page = talk.open()
        talk.say(page, "talk")
        expect(page.locator("#partial-text")).to_contain_text("never", timeout=20_000)
        path = page.url.removeprefix(talk.console.url)
    with talking(tmp_path, browser, reply) as talk:
        page = talk.console.page(path)
        expect(page.locator("#conversation-head .tag")).to_have_text("interrupted")
        page.get_by_role("button", name="Continue").click()
        expect(page.locator(".message.assistant .markdown")).to_have_text("done", timeout=20_000)
        expect(page.locator("#conversation-head .tag")).to_have_text("idle")


def test_the_screen_is_in_chinese_and_works_on_a_phone(tmp_path: Path, browser: Browser, axe: str) -> None:
    with talking(tmp_path, browser, [runs_shout("你好"), "完成"]) as talk:
        page = talk.open(locale="zh-CN", viewport={"width": 380, "height": 740})
        talk.say(page, "大声说你好")
        expect(page.locator(".message.assistant .markdown")).to_have_text("完成", timeout=20_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= 380
        expect(page.locator("#conversation-side")).to_contain_text("各层")
        check_accessibility(page, axe)


def test_conversations_are_found_as_you_type(tmp_path: Path, browser: Browser, axe: str) -> None:
    with talking(tmp_path, browser, lambda _: "fine") as talk:  # pyright: ignore[reportUnknownLambdaType]
        for text in ("About sales", "About weather"):
            page = talk.open()
            talk.say(page, text)
            expect(page.locator(".message.assistant .markdown")).to_have_text("fine", timeout=20_000)
        page.goto(talk.console.url + "/console/conversations")
        expect(page.locator("tbody tr")).to_have_count(2)
        check_accessibility(page, axe)
        page.get_by_role("searchbox").type("SALES")
        expect(page.locator("tbody tr")).to_have_count(1)
        assert "q=SALES" in page.url
        page.get_by_role("searchbox").fill("nothing")
        expect(page.locator(".empty")).to_contain_text("No conversation matches")
        check_accessibility(page, axe)
        page.goto(talk.console.url + "/console/conversations/none")
        expect(page.locator("main")).to_contain_text("unknown conversation")
