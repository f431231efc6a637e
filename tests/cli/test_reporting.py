"""What the library says reaches the person at the shell."""

import logging
from pathlib import Path

import pytest

from openskills.cli.reporting import reported
from tests.cli.command import Command
from tests.skill_writer import WriteSkill


def test_warnings_are_lines_on_stderr_while_the_block_lasts(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("openskills.somewhere")
    with reported():
        logger.warning("the disk\nis %s\x1b[2J", "full")
        logger.info("nothing")
        try:
            int("x")
        except ValueError:
            logger.exception("it broke")
    logger.warning("afterwards")
    assert capsys.readouterr().err == "warning: the disk is full\\x1b[2J\nerror: it broke\n"


def test_an_audit_log_that_cannot_be_written_is_told_by_run(
    openskills: Command, write_skill: WriteSkill, tmp_path: Path
) -> None:
    write_skill("demo")
    state = tmp_path / "state"
    (state / "audit.jsonl").mkdir(parents=True)
    arguments = ("run", "demo", "--skills", "skills", "--executor", "local", "--", "echo hi")
    ran = openskills(*arguments, OPENSKILL_STATE_DIR=str(state))
    assert (ran.code, ran.out) == (0, "hi\n")
    told = [line for line in ran.err.splitlines() if "audit.jsonl cannot be written: Is a directory" in line]
    assert len(told) == 1
    assert told[0].startswith("warning: ")
