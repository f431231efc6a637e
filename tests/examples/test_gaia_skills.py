"""The downloader of the GAIA example, at a server of our own, and its skills with the real programs."""

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

from examples.gaia_dataset import load
from openskills.catalog.catalog import Catalog
from tests.examples.newcomer import EXAMPLES
from tests.runtime.talking import runtime_in

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
