"""GAIA example: questions are read in every published form, scored by meaning, downloaded, and answered with skills."""

import json
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from examples.gaia_dataset import final_answer, is_right, load
from openskills.catalog.catalog import Catalog
from tests.examples.newcomer import EXAMPLES
from tests.runtime.talking import runtime_in

ROW = {"task_id": "t", "Question": "Why?", "Level": "2", "Final answer": "42", "file_name": "a.csv"}


def test_questions_come_with_their_files_and_notes() -> None:
    questions = load(EXAMPLES / "gaia")
    assert [(question.task_id, question.level) for question in questions] == [
        ("made-0001", 1),
        ("made-0002", 1),
        ("made-0003", 2),
    ]
    assert [question.file.name if question.file else None for question in questions] == ["sales.csv", "app.log", None]
    assert all(question.file is None or question.file.is_file() for question in questions)
    assert questions[0].notes["Tools"] == "1. A spreadsheet"


@pytest.mark.parametrize("content", [[ROW], {"rows": [{"row_idx": 0, "row": ROW}]}], ids=["list", "viewer"])
def test_json_is_a_list_or_what_the_viewer_of_the_dataset_gives(tmp_path: Path, content: object) -> None:
    (tmp_path / "metadata.json").write_text(json.dumps(content))
    (question,) = load(tmp_path)
    assert (question.text, question.level, question.answer, question.notes) == ("Why?", 2, "42", {})
    assert question.file == tmp_path / "a.csv"


def test_an_answer_that_is_kept_secret_is_none_and_no_file_leads_out_of_the_folder(tmp_path: Path) -> None:
    secret = {**ROW, "Final answer": "?", "file_name": "../../etc/passwd"}
    (tmp_path / "metadata.jsonl").write_text(f"{json.dumps(secret)}\n\n")
    (question,) = load(tmp_path)
    assert question.answer is None
    assert question.file == tmp_path / "passwd"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("1,214.50", "1214.5"),
        ("$17", "17"),
        ("25 ", "25"),
        ("25%", "25"),
        (".5", "0.5"),
        ("-3.", "-3"),
        ("Saint Petersburg", "saint petersburg."),
        ("a; B", "A, b"),
        ("1.0, two", "1,Two"),
        ("北京", "北京。"),
    ],
)
def test_answers_that_mean_the_same_are_right(answer: str, expected: str) -> None:
    assert is_right(answer, expected)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("12", "1,2"),
        ("1, 2, 3", "1, 2"),
        ("2, 1", "1, 2"),
        ("seventeen", "17"),
        ("", "0"),
        ("", "17"),
        ("-3", "3"),
        ("Petersburg", "Saint Petersburg"),
        ("", "a, b"),
    ],
)
def test_answers_that_mean_something_else_are_wrong(answer: str, expected: str) -> None:
    assert not is_right(answer, expected)


def test_the_final_answer_stands_behind_its_last_mark() -> None:
    assert final_answer("FINAL ANSWER: 1? No.\nFINAL ANSWER: 2\n") == "2"
    assert final_answer(" 3 ") == "3"


SKILLS = EXAMPLES / "gaia" / "skills"
ROWS = [
    {
        "task_id": f"task-{number}",
        "Question": f"Question {number}?",
        "Level": "1",
        "Final answer": "1",
        "file_name": name,
    }
    for number, name in enumerate([*[""] * 149, "../../data.bin"])
]


@contextmanager
def dataset_server(token: str) -> Generator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            if self.headers.get("authorization") != f"Bearer {token}":
                self._send(401, b"{}")
            elif asked.path == "/rows":
                values = {name: one[0] for name, one in parse_qs(asked.query).items()}
                assert values["config"] == "2023_level1"
                first = int(values["offset"])
                rows = [{"row": row} for row in ROWS[first : first + int(values["length"])]]
                self._send(200, json.dumps({"rows": rows, "num_rows_total": len(ROWS)}).encode())
            elif asked.path == "/datasets/gaia-benchmark/GAIA/resolve/main/2023/validation/data.bin":
                self._send(200, b"\x00\x01")
            else:
                self._send(404, b"")

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def download(url: str, folder: Path, token: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / "gaia_download.py"), str(folder), "--with-files"]
    command += ["--rows-url", url, "--files-url", url]
    return subprocess.run(command, env={"HF_TOKEN": token}, capture_output=True, text=True, check=False)


def test_questions_and_files_are_downloaded_and_can_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "gaia"
    with dataset_server("hf_right") as url:
        refused = download(url, folder, "hf_wrong")
        assert refused.returncode == 1
        assert "accept the terms at https://huggingface.co/datasets/gaia-benchmark/GAIA" in refused.stderr
        done = download(url, folder, "hf_right")
    assert done.stderr == ""
    assert done.stdout == f"150 questions are in {folder}.\n"
    questions = load(folder)
    assert len(questions) == 150
    assert questions[-1].file is not None
    assert questions[-1].file.read_bytes() == b"\x00\x01"
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["data.bin", "metadata.jsonl"]


def test_a_server_that_is_gone_is_a_message(tmp_path: Path) -> None:
    gone = download("http://127.0.0.1:9", tmp_path / "gaia", "hf_right")
    assert gone.returncode == 1
    assert gone.stderr.startswith("the server cannot be reached")


def test_the_skills_of_the_example_are_valid() -> None:
    snapshot = Catalog.from_paths(SKILLS).snapshot
    assert [skill.name for skill in snapshot.skills] == ["ocr", "whisper"]
    assert [skill.problems for skill in snapshot.skills] == [(), ()]


LETTERS = {
    "H": ["10001", "10001", "10001", "11111", "10001", "10001", "10001"],
    "E": ["11111", "10000", "10000", "11110", "10000", "10000", "11111"],
    "L": ["10000", "10000", "10000", "10000", "10000", "10000", "11111"],
    "O": ["01110", "10001", "10001", "10001", "10001", "10001", "01110"],
}


def picture(word: str, scale: int = 12) -> bytes:
    """A PNG with a word in big letters."""
    rows = ["0" * (6 * len(word) + 4)] * 3
    rows += ["00" + "".join(f"{LETTERS[one][row]}0" for one in word) + "00" for row in range(7)] + rows
    lines = [b"\0" + b"".join((b"\x00" if bit == "1" else b"\xff") * scale for bit in row) for row in rows]
    data = zlib.compress(b"".join(line * scale for line in lines))
    head = struct.pack(">IIBBBBB", len(rows[0]) * scale, len(rows) * scale, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(one)) + kind + one + struct.pack(">I", zlib.crc32(kind + one)) for kind, one in chunks
    )


async def test_the_text_of_an_image_is_read_in_a_session(tmp_path: Path, require_program: Callable[[str], str]) -> None:
    require_program("tesseract")
    (tmp_path / "skills").symlink_to(SKILLS)
    async with runtime_in(tmp_path, executor="local") as runtime, runtime.session("s") as session:
        session.add_file("sign.png", picture("HELLO"))
        await session.call("skill_load", {"skill": "ocr"})
        command = "python3 scripts/ocr.py $WORK_DIR/inputs/sign.png --layout 7"
        result = (await session.call("skill_run", {"skill": "ocr", "command": command})).raise_for_error()
    assert result.data["exit_code"] == 0, result.data["stderr"]
    assert "HELLO" in result.data["stdout"].upper()


@pytest.mark.parametrize(
    ("script", "missing"),
    [("ocr/scripts/ocr.py", "tesseract-ocr"), ("whisper/scripts/transcribe.py", "faster-whisper")],
)
def test_without_its_program_a_skill_says_what_to_install(tmp_path: Path, script: str, missing: str) -> None:
    # Isolated, and with an empty PATH: neither packages nor programs are found.
    command = [sys.executable, "-I", "-S", str(SKILLS / script), "some.file"]
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert missing in done.stderr
