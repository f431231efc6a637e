"""Text of PDF files, with the real library, and the way by which a workspace gets it."""

import json
import shutil
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from pypdf import PdfWriter

from openskills.artifacts.store import Scope
from openskills.executors.commands import CommandRules, open_command_runner
from openskills.executors.open import open_executor
from openskills.executors.package_index import PackageIndex
from openskills.executors.requests import InstallMode, PackageOptions
from openskills.runtime.options import SessionOptions
from tests.conftest import RequireProgram
from tests.runtime.talking import Transcript, runtime_in
from tests.skills.pdf_writer import pdf
from tests.skills.shipped import SKILLS, fault, run_script
from tests.tools.contexts import settings_in

THREE = ("Hello (world)\nand a second line", "", "The third page")


@pytest.fixture
def paper(tmp_path: Path) -> Path:
    (tmp_path / "paper.pdf").write_bytes(pdf(THREE))
    return tmp_path


def extract(place: Path, *arguments: str, **env: str) -> CompletedProcess[str]:
    # The library is installed for the interpreter of the tests.
    return run_script("pdf-text/scripts/pdf_text.py", *arguments, cwd=place, env=env, python=sys.executable)


def test_every_page_has_its_number_and_one_without_text_says_so(paper: Path) -> None:
    done = extract(paper, "paper.pdf")
    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if line] == [
        "--- paper.pdf, page 1 of 3 ---",
        "Hello (world)",
        "and a second line",
        "--- paper.pdf, page 2 of 3 ---",
        "[no text on this page: it is empty, or a picture that needs OCR]",
        "--- paper.pdf, page 3 of 3 ---",
        "The third page",
    ]
    assert done.stderr == "2 of 3 pages have text, 45 characters\n"


def test_some_pages_of_several_files_come_as_data(paper: Path) -> None:
    (paper / "other.pdf").write_bytes(pdf(["one", "two", "three"], compressed=True))
    done = extract(paper, "paper.pdf", "other.pdf", "--pages", "3,1-1", "--json", "--output", "pages.json")
    assert (done.returncode, done.stdout) == (0, "")
    pages = json.loads((paper / "pages.json").read_text("utf-8"))
    assert [(page["file"], page["page"], page["pages"]) for page in pages] == [
        *(("paper.pdf", number, 3) for number in (1, 3)),
        *(("other.pdf", number, 3) for number in (1, 3)),
    ]
    assert [page["text"] for page in pages][1:] == ["The third page", "one", "three"]


def test_pages_from_one_on_and_layout(paper: Path) -> None:
    done = extract(paper, "paper.pdf", "--pages", "2-", "--layout")
    assert done.stdout.count("--- paper.pdf, page") == 2
    assert "The third page" in done.stdout


@pytest.mark.parametrize("pages", ["0", "4", "2-9", "3-2", "x", "1,,2", "-", "1-2-3", "99999999999"])
def test_pages_that_are_not_there_are_refused_by_name(paper: Path, pages: str) -> None:
    assert fault(extract(paper, "paper.pdf", f"--pages={pages}"), 2).startswith("--pages: ")


def test_scanned_pages_end_with_a_status_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "scan.pdf").write_bytes(pdf(["", ""]))
    done = extract(tmp_path, "scan.pdf")
    assert (done.returncode, done.stderr) == (1, "0 of 2 pages have text, 0 characters\n")


def test_an_encrypted_file_opens_with_the_password_of_a_variable(paper: Path) -> None:
    writer = PdfWriter(clone_from=paper / "paper.pdf")
    writer.encrypt("geheim", algorithm="RC4-128")
    writer.write(paper / "locked.pdf")
    assert fault(extract(paper, "locked.pdf"), 3).startswith("locked.pdf is encrypted; say --password-env")
    told = ("locked.pdf", "--password-env", "PDF_PASSWORD")
    assert "Hello (world)" in extract(paper, *told, PDF_PASSWORD="geheim").stdout
    assert fault(extract(paper, *told, PDF_PASSWORD="wrong"), 3) == "locked.pdf is encrypted; the password is wrong"
    assert fault(extract(paper, *told), 2) == "--password-env: the variable PDF_PASSWORD is not set"


@pytest.mark.parametrize(
    ("data", "status", "said"),
    [
        (b"", 3, "is not a PDF file"),
        (b"\x89PNG\r\n\x1a\n\0\0", 3, "is not a PDF file"),
        (b"%PDF-1.4\n", 3, "is damaged"),
        (b"%PDF-1.7\n%%EOF", 3, "is damaged"),
        (pdf(THREE)[:500], 3, "is damaged"),
        (pdf(THREE).replace(b"[4 0 R 6 0 R", b"[2 0 R 2 0 R"), 3, "is damaged"),
    ],
)
def test_what_is_not_a_whole_pdf_is_said_in_one_line(tmp_path: Path, data: bytes, status: int, said: str) -> None:
    (tmp_path / "x.pdf").write_bytes(data)
    assert fault(extract(tmp_path, "x.pdf"), status).startswith(f"x.pdf {said}")


def test_a_page_that_would_fill_the_memory_does_not_hide_the_others(tmp_path: Path) -> None:
    bomb = pdf(["x" * (100 * 1024 * 1024), "fine"], compressed=True)
    (tmp_path / "bomb.pdf").write_bytes(bomb)
    done = extract(tmp_path, "bomb.pdf", "--json")
    assert done.returncode == 0
    first, second = json.loads(done.stdout)
    assert (first["text"], second["text"]) == ("", "fine")
    assert first["problem"].startswith("cannot be read: Limit reached")


def test_a_page_that_never_ends_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "long.pdf").write_bytes(pdf(["\n".join(["words"] * 300_000), "fine"], compressed=True))
    done = extract(tmp_path, "long.pdf", "--json", "--timeout", "1")
    assert done.returncode == 0
    first, second = json.loads(done.stdout)
    assert first["problem"] == "cannot be read: it takes longer than 1 seconds (--timeout)"
    assert second["text"] == "fine"


def test_a_file_with_any_byte_broken_never_ends_in_a_traceback(tmp_path: Path) -> None:
    whole = pdf(THREE, compressed=True)
    for place in range(0, len(whole), 120):
        (tmp_path / f"{place}.pdf").write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
    for path in tmp_path.iterdir():
        done = extract(tmp_path, path.name)
        assert done.returncode in (0, 1, 3), done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_without_the_library_it_is_said_how_to_get_it(paper: Path) -> None:
    command = [sys.executable, "-S", "-I", str(SKILLS / "pdf-text/scripts/pdf_text.py")]
    (paper / "bare.py").write_text(f"import subprocess, sys; sys.exit(subprocess.call({[*command, 'paper.pdf']}))")
    done = run_script(str(paper / "bare.py"), cwd=paper)
    said = fault(done, 4)
    assert said.startswith("the Python package 'pypdf' is not installed")
    assert "pip install -r requirements.txt" in said


def wheel_of(name: str, folder: Path) -> None:
    """The installed package as the wheel that it came from, so that nothing has to be downloaded."""
    found = metadata.distribution(name)
    inside = [file for file in found.files or () if ".." not in file.parts and "__pycache__" not in file.parts]
    folder.mkdir()
    with zipfile.ZipFile(folder / f"{name}-{found.version}-py3-none-any.whl", "w") as archive:
        for file in inside:
            archive.write(str(file.locate()), str(file))


@pytest.mark.slow
async def test_what_the_skill_declares_is_installed_and_the_model_reads_the_file(
    tmp_path: Path, require_program: RequireProgram
) -> None:
    require_program("bwrap")
    folder = tmp_path / "skills" / "pdf-text"
    shutil.copytree(SKILLS / "pdf-text", folder)
    wheel_of("pypdf", tmp_path / "wheels")
    tmp_path.chmod(0o755)
    scope = Scope("openskills", "local", "s")
    rules = CommandRules(index=PackageIndex(no_index=True, find_links=(str(tmp_path / "wheels"),)))

    place = open_executor("sandbox", settings_in(tmp_path))
    try:
        bench = await open_command_runner(place, settings_in(tmp_path), scope, rules=rules)
        await bench.stage("pdf-text", folder)
        done = await bench.provide_packages("pdf-text", "true", PackageOptions(install=InstallMode.ALWAYS))
        assert done.environment.mounts, done.warnings
        await bench.close()
    finally:
        await place.close()
    options = SessionOptions(index=rules.index)
    made = runtime_in(tmp_path, executor="sandbox", options=options)
    async with made as runtime, runtime.session("s") as session:
        session.add_file("paper.pdf", pdf(THREE))
        talk = Transcript(session)
        talk.user("What does the paper say?")
        await talk.load("pdf-text")
        command = "python3 scripts/pdf_text.py inputs/paper.pdf --output paper.txt"
        (result,) = await talk.call(("skill_run", {"skill": "pdf-text", "command": command, "output_files": ["out/*"]}))
        assert result.data["exit_code"] == 0, result.text
        assert "Hello (world)" in result.data["output_files"][0]["content"]
