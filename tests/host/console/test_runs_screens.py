"""The screens Try it and Runs in a real browser, with real commands in the sandbox."""

import json
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from openskills.cli.ui import create_link
from openskills.host.console.pages import MAX_CHARACTERS
from openskills.host.console.runs import draw_calls, draw_latency, draw_waterfall
from openskills.host.console.try_it import build_defaults
from openskills.host.history import RunStatistics
from openskills.settings import Settings
from tests.host.console.conftest import ConsoleHost, check_accessibility
from tests.host.console.runs_host import open_runs_console
from tests.host.hosting import Waiting, eventually, key_in
from tests.long_form import LONG
from tests.servers.warm_openskills import WarmProcess, start_openskills


@pytest.fixture(scope="module")
def runs_console(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Generator[ConsoleHost]:
    with open_runs_console(tmp_path_factory.mktemp("runs"), browser) as found:
        yield found


def start_command(page: Page, console: ConsoleHost, command: str, *, mode: str = "Run to the end") -> str:
    """Start a command as a user does; returns the id of its run."""
    page.goto(f"{console.url}/console/try/skill/reporter")
    page.locator("#command").fill(command)
    page.get_by_label(mode).check()
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url("**/console/runs/run_*")
    return page.url.rpartition("/")[2]


def wait_for_end(page: Page) -> None:
    page.locator("#log[data-ended]").wait_for(state="attached")
    page.locator("#waterfall:not([hidden])").wait_for()


# Try it


def test_the_form_of_a_schema_sends_what_was_entered(runs_console: ConsoleHost) -> None:
    page = runs_console.page("/console/try")
    page.get_by_role("link", name="order", exact=True).click()
    expect(page.get_by_label("amount")).to_have_value("10")
    page.get_by_label("customer").fill("Ada")
    page.get_by_label("urgent").select_option("yes")
    page.get_by_label("size").select_option("large")
    page.locator("fieldset[data-pointer='/tags']").get_by_role("button", name="Add").click()
    page.get_by_label("Item 1").fill("new")
    page.get_by_label("city").fill("Paris")
    page.get_by_label("payment").select_option("Invoice")
    page.get_by_label("days").fill("30")
    page.get_by_label("scan").set_input_files([{"name": "a.bin", "mimeType": "x/y", "buffer": b"\x00\xff"}])
    page.get_by_label("serial").fill("9007199254740993")
    page.get_by_label("__proto__").fill("an ordinary name")
    page.get_by_role("tab", name="JSON").click()
    expect(page.locator("#input")).to_have_value(re.compile("AP8="))
    page.get_by_role("tab", name="Form").click()
    # It has more digits than a number of JavaScript.
    expect(page.get_by_label("serial")).to_have_value("9007199254740993")
    page.get_by_role("button", name="Run", exact=True).click()
    wait_for_end(page)
    shown = json.loads(page.locator("#output-json").inner_text())
    assert shown["ordered"] == {
        "customer": "Ada",
        "amount": 10,
        "urgent": True,
        "size": "large",
        "tags": ["new"],
        "address": {"city": "Paris"},
        "payment": {"days": 30},
        "scan": "AP8=",
        "serial": 9007199254740993,
        "__proto__": "an ordinary name",
    }
    expect(page.locator("#log .fg2")).to_have_text("checking")


def test_the_errors_of_the_server_are_shown_at_their_fields(runs_console: ConsoleHost) -> None:
    page = runs_console.page("/console/try/hosted/order")
    page.get_by_label("amount").fill("-5")
    page.locator("fieldset[data-pointer='/tags']").get_by_role("button", name="Add").click()
    page.get_by_label("Item 1").fill("much too long")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#errors li")).to_have_count(3)
    for pointer in ("/customer", "/amount", "/tags/0"):
        expect(page.locator(f"[data-pointer='{pointer}']")).to_have_attribute("aria-invalid", "true")
    # What was entered is still there, and the back button leads to the form before it was sent.
    expect(page.get_by_label("amount")).to_have_value("-5")
    page.get_by_label("extra").fill("[1,")
    expect(page.get_by_text("not valid JSON")).to_be_visible()
    page.get_by_role("tab", name="JSON").click()
    page.locator("#input").fill("{not json")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#errors")).to_contain_text("not valid JSON")
    expect(page.locator("#input")).to_have_value("{not json")


def test_after_an_error_the_chosen_alternative_and_the_file_are_still_there(runs_console: ConsoleHost) -> None:
    page = runs_console.page("/console/try/hosted/order")
    page.get_by_label("payment").select_option("Invoice")
    page.get_by_label("delivery").select_option("Post")
    page.get_by_label("scan").set_input_files([{"name": "a.bin", "mimeType": "x/y", "buffer": b"hello"}])
    expect(page.locator("#input")).to_have_value(re.compile("aGVsbG8="))
    page.get_by_role("button", name="Run", exact=True).click()
    # Of the alternative that was meant, the field that is missing.
    expect(page.locator("[data-pointer='/delivery/street']")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#errors li")).to_have_text(
        ['input: "customer" is a required property', 'input.delivery: "street" is a required property']
    )
    expect(page.get_by_label("payment").locator("option:checked")).to_have_text("Invoice")
    expect(page.get_by_text("5 bytes are kept")).to_be_visible()
    page.get_by_label("customer").fill("Ada")
    page.get_by_label("street").fill("High Street")
    page.get_by_label("days").fill("7")
    page.get_by_role("button", name="Run", exact=True).click()
    wait_for_end(page)
    shown = json.loads(page.locator("#output-json").inner_text())["ordered"]
    assert (shown["payment"], shown["scan"]) == ({"days": 7}, "aGVsbG8=")
    assert shown["delivery"] == {"kind": "post", "street": "High Street"}


def test_a_command_streams_in_colours_and_its_files_can_be_previewed(runs_console: ConsoleHost) -> None:
    page = runs_console.page()
    page.goto(f"{runs_console.url}/console/try/skill/reporter")
    page.locator("#files").set_input_files([{"name": "sales <b>.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,2\n"}])
    page.get_by_role("button", name="Upload only").click()
    expect(page.get_by_role("link", name="work/inputs/sales <b>.csv")).to_be_visible()
    run_id = start_command(page, runs_console, "python scripts/report.py")
    wait_for_end(page)
    expect(page.locator("#log .fg2")).to_have_text("reading")
    expect(page.locator("#log .err")).to_have_text("careful")
    expect(page.locator("#about")).to_contain_text("bubblewrap")
    expect(page.locator("svg.waterfall .phase")).to_have_count(5)
    address = page.url
    page.get_by_role("link", name="out/report.md").click()
    expect(page.locator(".markdown strong")).to_have_text("bold")
    expect(page.locator(".markdown")).to_contain_text("<script>alert(1)</script>")
    page.go_back()
    assert page.url == address
    page.get_by_role("link", name="out/table.csv").click()
    expect(page.locator("table.data td").first).to_have_text("<b>May</b>")
    page.goto(address)
    page.get_by_role("link", name="out/dot.png").click()
    assert page.locator("img.picture").evaluate("image => image.naturalWidth") == 1
    page.goto(address)
    page.get_by_role("link", name="out/page.html").click()
    page.get_by_role("link", name="Show the preview").click()
    expect(page.frame_locator("iframe.preview").locator("h1")).to_have_text("Page")
    assert page.title() != "owned"
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "page.html"
    # Chromium says that the frame may not run its script, which is what we want.
    runs_console.faults[:] = [one for one in runs_console.faults if "allow-scripts" not in one]
    page.goto(address)
    page.get_by_role("button", name="Run again", exact=True).click()
    page.wait_for_url(re.compile(f"/console/runs/(?!{run_id})"))
    wait_for_end(page)


def test_a_terminal_program_is_used_with_the_keyboard(runs_console: ConsoleHost) -> None:
    page = runs_console.page()
    start_command(page, runs_console, "python scripts/menu.py", mode="In a terminal")
    screen = page.locator("#terminal")
    expect(screen).to_contain_text("choose one")
    screen.focus()
    page.keyboard.type("twx")
    page.keyboard.press("Backspace")
    page.keyboard.type("o")
    page.keyboard.press("Enter")
    expect(screen).to_contain_text("you chose two")
    page.keyboard.press("Enter")
    wait_for_end(page)
    page.reload()
    expect(screen).to_contain_text("you chose two")


def test_input_is_sent_and_a_run_is_cancelled(runs_console: ConsoleHost) -> None:
    page = runs_console.page()
    start_command(page, runs_console, "read name; echo hello $name; sleep 1000", mode="Keep its input open")
    page.get_by_placeholder("Input for the command").fill("Ada")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#log")).to_contain_text("hello Ada")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#state")).to_contain_text("cancelled")
    expect(page.get_by_role("button", name="Run again", exact=True)).to_be_visible()


@pytest.mark.parametrize(
    ("workspace", "command", "said"),
    [("../up", "ls", "invalid name"), ("default", " ", "command"), ("a b", "ls", "invalid name")],
)
def test_a_command_that_cannot_start_says_why_and_keeps_what_was_entered(
    runs_console: ConsoleHost, workspace: str, command: str, said: str
) -> None:
    page = runs_console.page("/console/try/skill/reporter")
    page.locator("#workspace").fill(workspace)
    page.locator("#command").fill(command)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text(said)
    expect(page.locator("#workspace")).to_have_value(workspace)


def test_variables_have_to_be_entered_again_and_workspaces_can_be_deleted(runs_console: ConsoleHost) -> None:
    with runs_console.client() as client:
        address = "/console/try/skill/reporter"
        form = {"command": "test -n $TOKEN", "workspace": "spare", "variables": "TOKEN=hunter22\n\nMODE=a=b\n"}
        page = client.post(address, data=form)
        run_id = page.url.path.rpartition("/")[2]
        eventually(lambda: client.get(f"/runs/{run_id}").json()["data"]["state"] == "succeeded")
        page = client.get(f"/console/runs/{run_id}")
        assert "Values are not stored; enter them to run it again." in page.text
        assert f"/console/runs/{run_id}/again" not in page.text
        assert "hunter22" not in page.text
        page = client.get(f"{address}?run={run_id}")
        assert "Values of variables are not stored. Enter them again: MODE, TOKEN" in page.text
        assert ">MODE=\nTOKEN=\n</textarea>" in page.text
        page = client.post(address, data={**form, "variables": "TOKEN=x\nhunter22"})
        assert page.status_code == 400
        assert "line 2: expected NAME=VALUE" in page.text
        assert "/console/workspaces/spare/delete" in client.get("/console/try").text
        assert "/console/workspaces/spare/delete" not in client.post("/console/workspaces/spare/delete").text


# Runs


def test_runs_are_filtered_compared_and_updated_live_in_two_browsers(runs_console: ConsoleHost) -> None:
    first, second = runs_console.page(), runs_console.page("/console/runs")
    run_id = start_command(first, runs_console, "echo same; read line; echo $line", mode="Keep its input open")
    row = second.locator(f"#row-{run_id}")
    expect(row).to_contain_text("running", timeout=15_000)
    other = second.context.new_page()
    other.goto(first.url)
    first.get_by_placeholder("Input for the command").fill("one")
    first.get_by_role("button", name="Send").click()
    expect(other.locator("#log")).to_contain_text("one")
    expect(other.locator("#state")).to_contain_text("succeeded")
    expect(row).to_contain_text("succeeded", timeout=15_000)
    again = start_command(first, runs_console, "echo same; echo two")
    wait_for_end(first)
    second.goto(f"{runs_console.url}/console/runs?skill=reporter&state=succeeded")
    for one in (run_id, again):
        second.locator(f"#row-{one} input").check()
    second.get_by_role("button", name="Compare two runs").click()
    expect(second.locator("del")).to_have_text("-one")
    expect(second.locator("ins")).to_have_text("+two")
    second.goto(f"{runs_console.url}/console/runs?text=nothing+has+this")
    expect(second.locator("#results")).to_contain_text("No run matches")


def read_list(client: httpx2.Client, address: str, mark: str) -> tuple[str, str]:
    """The next list of runs after the one with this id, and its id."""
    with client.stream("GET", address, headers={"Last-Event-ID": mark}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, list[str]] = {}
        for line in answer.iter_lines():
            if not line and fields:
                return "\n".join(fields["data"]), fields["id"][0]
            name, _, value = line.partition(": ")
            if name:
                fields.setdefault(name, []).append(value)
    raise AssertionError("the stream has ended")


def test_the_list_of_runs_goes_on_where_a_browser_has_left_it(runs_console: ConsoleHost) -> None:
    def start(client: httpx2.Client, command: str) -> str:
        body = {"skill": "reporter", "command": command}
        return client.post("/workspaces/listed/commands", json=body).json()["data"]["id"]

    with runs_console.client() as client:
        page = client.get("/console/runs?skill=reporter")
        found = re.search(r'hx-sse:connect="([^"]+after=(\w+))"', page.text)
        assert found is not None
        address, mark = found[1].replace("&amp;", "&"), found[2]
        first = start(client, "sleep 1000")
        html, later = read_list(client, address, mark)
        assert f"row-{first}" in html
        assert later != mark
        # What happened while nobody was connected is in the first event.
        client.post(f"/runs/{first}:cancel").raise_for_status()
        eventually(lambda: client.get(f"/runs/{first}").json()["data"]["state"] == "cancelled")
        second = start(client, "true")
        html, _ = read_list(client, address, later)
        assert f"row-{second}" in html
        assert "cancelled" in html
        assert "order" not in html[html.index("<table") :]
        assert client.get("/console/runs/live?range=odd").status_code == 400


def test_a_reader_whose_connection_breaks_gets_every_line_once(runs_console: ConsoleHost) -> None:
    page = runs_console.page()
    command = "for i in $(seq 1 40); do echo line-$i; sleep 0.05; done"
    run_id = start_command(page, runs_console, command)
    expect(page.locator("#log")).to_contain_text("line-3")
    page.context.set_offline(True)
    expect(page.locator("#log")).not_to_contain_text("line-40")
    page.context.set_offline(False)
    expect(page.locator("#log")).to_contain_text("line-40", timeout=30_000)
    wait_for_end(page)
    shown = page.locator("#log").inner_text().split()
    assert shown == [f"line-{number}" for number in range(1, 41)], run_id
    # Left and reopened, it shows the same.
    page.goto(f"{runs_console.url}/console/runs")
    page.go_back()
    expect(page.locator("#log")).to_contain_text("line-40")
    runs_console.faults[:] = [one for one in runs_console.faults if "ERR_INTERNET_DISCONNECTED" not in one]


def test_a_run_can_be_read_without_scripts(runs_console: ConsoleHost) -> None:
    page = runs_console.page()
    run_id = start_command(page, runs_console, "echo 'plain'\npython scripts/report.py")
    wait_for_end(page)
    context = runs_console.browser.new_context(java_script_enabled=False)
    reader = context.new_page()
    reader.goto(runs_console.create_link())
    reader.goto(f"{runs_console.url}/console/runs")
    reader.locator(f"#row-{run_id} a").click()
    expect(reader.locator("#content noscript pre")).to_contain_text("plain")
    expect(reader.locator("svg.waterfall .phase")).to_have_count(5)
    reader.goto(f"{runs_console.url}/console/try/hosted/order")
    reader.locator("#input").fill('{"customer": "Bo", "amount": 1}')
    reader.get_by_role("button", name="Run", exact=True).click()
    expect(reader.locator("h1")).to_contain_text("order")
    context.close()


HOSTILE = [
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "</pre><script>document.title='owned'</script>",
    "javascript:alert(1)",
    "\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07",
    "\x1b]0;owned\x07",
    "\x1b[31;1;4;7;38;5;999;48;2;300;-1;mcolour",
    "\x1b[999999999999999999999999;1H",
    "\x1b[" + "1;" * 5000 + "m",
    "\x1bP" + "q" * 5000,
    "\u202etxt.exe\u202c \u2066hidden\u2069",
    "a\x00b\x07c\x08\x7f\x9b31m",
    "{{ 7 * 7 }} {% raw %} ${7*7} #{7}",
    "data: injected\n\nevent: result\ndata: {}",
    "\r\r\roverwritten\rshown",
    "&lt;b&gt;&#x3c;script&#x3e;",
    "\ud7ff\ue000\uffff\U0001f4a9" * 50,
    "x" * 20_000,
    "<svg onload=\"document.title='owned'\">",
    "<style>*{display:none}</style>",
]


def test_a_hundred_hostile_outputs_are_inert(runs_console: ConsoleHost) -> None:
    texts = [f"{number:03} {HOSTILE[number % len(HOSTILE)]}\n" for number in range(100)]
    page = runs_console.page()
    content = "".join(texts).encode("utf-8", "surrogatepass")
    page.goto(f"{runs_console.url}/console/try/skill/reporter")
    page.locator("#files").set_input_files([{"name": "hostile.txt", "mimeType": "text/plain", "buffer": content}])
    page.locator("#workspace").fill("hostile")
    page.locator("#command").fill("cat inputs/hostile.txt; cp inputs/hostile.txt 'out/<img src=x onerror=alert(1)>.md'")
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url("**/console/runs/run_*")
    wait_for_end(page)
    assert "owned" not in page.title()
    shown = page.locator("#log").inner_text()
    # A carriage return overwrites the number of its line, as in a terminal.
    kept = [number for number in range(100) if not HOSTILE[number % len(HOSTILE)].startswith("\r")]
    assert [number for number in kept if f"{number:03} " not in shown] == []
    assert "\u202e" not in shown
    assert page.locator("#log script, #log img, #log svg, #log style, #log a, #about img").count() == 0
    expect(page.locator(".files")).to_contain_text("<img src=x onerror=alert(1)>.md")
    page.locator(".files a").click()
    assert page.locator(".markdown script, .markdown img, .markdown style").count() == 0
    assert "owned" not in page.title()
    page.goto(f"{runs_console.url}/console/runs?text=%3Cscript%3E&skill=%22%3E%3Cimg%3E")
    assert page.locator("#content img").count() == 0


LOOKS: tuple[tuple[str, Any], ...] = (("en-US", "light"), ("zh-CN", "dark"), ("en-US", "dark"), ("zh-CN", "light"))


def test_the_pages_are_accessible_in_both_languages_and_themes(runs_console: ConsoleHost, axe: str) -> None:
    page = runs_console.page(locale="en-US")
    run_id = start_command(page, runs_console, "python scripts/report.py; printf '\\033[33mwarn\\033[0m'")
    wait_for_end(page)
    other = start_command(page, runs_console, "echo x; exit 3")
    wait_for_end(page)
    called = page.request.post(
        f"{runs_console.url}/skills/order:invoke?mode=async",
        data={"input": {"customer": "Ada", "amount": 1}},
        headers={"Origin": runs_console.url},
    )
    looks = LOOKS if LONG else LOOKS[:2]
    readers = [runs_console.page(locale=locale, color_scheme=scheme) for locale, scheme in looks]
    paths = (
        f"/console/runs/{called.json()['data']['id']}",
        "/console/runs/compare",
        "/console/runs",
        f"/console/runs/{run_id}",
        f"/console/runs/compare?run={run_id}&run={other}",
        "/console/workspaces/default/files/out/table.csv",
        "/console/workspaces/default/files/out/page.html",
        "/console/try",
        "/console/try/hosted/order",
        "/console/try/skill/reporter",
        "/console/runs?text=nothing",
    )
    for number, path in enumerate(paths):
        # Each page in the next language and theme; in the long form in all of them.
        for reader in readers if LONG else [readers[number % len(readers)]]:
            reader.goto(runs_console.url + path)
            reader.locator("main").wait_for()
            check_accessibility(reader, axe)
    expect(readers[1].locator("nav").first).to_contain_text("运行")


def test_a_host_that_is_killed_during_a_run_shows_it_as_interrupted_after_a_restart(
    tmp_path: Path, browser: Browser
) -> None:
    skill = tmp_path / "skills" / "slow"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: slow\ndescription: Takes long.\n---\nWait.\n")
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "OPENSKILL_CLI_DIR": str(tmp_path / "none")}
    errors = tmp_path / "errors.txt"

    def start(port: str) -> tuple[WarmProcess, str]:
        with errors.open("wb") as written:
            line = ("serve", "skills", "--port", port)
            descriptor = written.fileno()
            process = start_openskills(*line, cwd=tmp_path, env=environment, stdout=descriptor, stderr=descriptor)
        eventually(lambda: b"console: " in errors.read_bytes() or process.poll() is not None, 60)
        found = re.search(r"console: (http://\S+:\d+)/", errors.read_text())
        assert found is not None, errors.read_text()
        return process, found[1]

    process, url = start("0")
    context = browser.new_context(locale="en-US")
    page = context.new_page()
    page.goto(f"{url}/?token={create_link(Settings.from_env(environment))}")
    page.goto(f"{url}/console/try/skill/slow")
    page.locator("#command").fill("echo begun; sleep 1000")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#log")).to_contain_text("begun")
    process.kill()
    process.wait(60)
    process, _ = start(url.rpartition(":")[2])
    try:
        # The page comes back by itself: the browser reconnects, and the new host knows how the run ended.
        expect(page.locator("#state")).to_contain_text("interrupted", timeout=30_000)
        expect(page.locator("#problem")).to_contain_text("how far the skill got is unknown")
        expect(page.locator("#log")).to_contain_text("begun")
    finally:
        context.close()
        process.terminate()
        process.wait(60)


# Charts


def test_charts_are_drawn_with_and_without_values() -> None:
    series = [RunStatistics(0.0, 0, 0), RunStatistics(60.0, 3, 1, 10.0, 20.0), RunStatistics(120.0, 2, 0, 5.0, 8.0)]
    calls, latency = draw_calls(series, "Calls <b>"), draw_latency(series, "Latency")
    assert calls.count('class="calls"') == 2
    assert "Calls &lt;b&gt;: 5 / 1" in calls
    assert latency.count("<path") == 2
    assert "NaN" not in calls + latency
    assert draw_calls([], "x").startswith("<svg")
    assert draw_latency([RunStatistics(0.0, 0, 0)], "x").startswith("<svg")
    drawn = draw_waterfall({"queue": 0.0, "script": 10.0}, {"script": "<i>"}, "t")
    assert "&lt;i&gt;" in drawn
    assert drawn.count("<rect") == 2


def test_a_waiting_skill_is_listed_as_running_and_can_be_cancelled_from_its_page(
    tmp_path: Path, browser: Browser
) -> None:
    with open_runs_console(tmp_path, browser) as console:
        waiting = console.served.table.functions["waiting"]
        assert isinstance(waiting, Waiting)
        page = console.page("/console/try/hosted/waiting")
        page.get_by_role("button", name="Run", exact=True).click()
        page.wait_for_url("**/console/runs/run_*")
        expect(page.locator("#state")).to_contain_text("running")
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("#state")).to_contain_text("cancelled")
        assert waiting.cancelled.is_set()


@pytest.mark.parametrize("schema", [{}, {"properties": {}}, {"properties": {"a": True, "b": {"default": None}}}])
def test_defaults_are_taken_from_any_schema(schema: dict[str, Any]) -> None:
    assert build_defaults(schema) == ({"b": None} if schema.get("properties") else {})


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("multipart/form-data", b"x", 400),
        ("multipart/form-data; boundary=b", b"--b\r\nbroken", 400),
        ("text/plain", b"command=ls", 415),
        ("application/x-www-form-urlencoded", b"command=&workspace=w", 400),
    ],
)
def test_a_form_that_is_not_one_is_refused(runs_console: ConsoleHost, kind: str, body: bytes, status: int) -> None:
    with runs_console.client() as client:
        answer = client.post("/console/try/skill/reporter", content=body, headers={"content-type": kind})
        assert answer.status_code == status


def test_of_a_long_hostile_file_only_the_beginning_is_rendered(runs_console: ConsoleHost) -> None:
    with runs_console.client() as client:
        hostile = "x " * (MAX_CHARACTERS // 2 + 1)
        client.put("/workspaces/slow/files/work/hostile.md", content=hostile.encode()).raise_for_status()
        page = client.get("/console/workspaces/slow/files/work/hostile.md")
    assert page.status_code == 200
    assert "Only the beginning is shown." in page.text


def test_the_pages_of_another_key_show_nothing_of_a_run(tmp_path: Path, browser: Browser) -> None:
    key = key_in(tmp_path, "other", role="read")
    with open_runs_console(tmp_path, browser) as console, console.client() as client:
        started = client.post("/workspaces/w/commands", json={"skill": "reporter", "command": "echo secret > out/a"})
        run_id = started.json()["data"]["id"]
        with httpx2.Client(verify=False, base_url=console.url, headers={"Authorization": f"Bearer {key}"}) as other:
            for path in (f"/console/runs/{run_id}", f"/console/runs/{run_id}/log", f"/runs/{run_id}"):
                assert other.get(path).status_code == 404
            assert run_id not in other.get("/console/runs").text
            assert other.post(f"/console/runs/{run_id}/again", headers={"Origin": console.url}).status_code == 403
            assert other.get("/console/try").status_code == 200
            refused = other.post("/workspaces/w/commands", json={"skill": "reporter", "command": "ls"})
            assert refused.status_code == 403
