"""Questions of the GAIA benchmark: reading them as they are published, and scoring answers to them. For `gaia.py`."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FINAL = "FINAL ANSWER:"
_NUMBER = re.compile(r"[-+]?[$€]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?%?")


@dataclass(frozen=True, slots=True)
class Question:
    """One question, the file that belongs to it, and what is known about it; `answer` is None where it is secret."""

    task_id: str
    text: str
    level: int
    answer: str | None
    file: Path | None
    notes: Mapping[str, str]


def load(folder: Path) -> list[Question]:
    """The questions of a folder with `metadata.jsonl` or `metadata.json`, and with the files that they name.

    JSON is a list of them, or what the dataset's viewer gives: `{"rows": [{"row": {...}}]}`.
    """
    lines = folder / "metadata.jsonl"
    if lines.is_file():
        return [_question(folder, json.loads(line)) for line in lines.read_text("utf-8").splitlines() if line.strip()]
    found: Any = json.loads((folder / "metadata.json").read_text("utf-8"))
    rows: list[Any] = [entry["row"] for entry in found["rows"]] if "rows" in found else found
    return [_question(folder, row) for row in rows]


def final_answer(said: str) -> str:
    """What stands behind the last `FINAL ANSWER:`; all of it when there is none."""
    return said.rpartition(FINAL)[2].strip()


def is_right(answer: str, expected: str) -> bool:
    """Whether an answer says the same: numbers by value, lists part by part, words without case and punctuation."""
    number = _number(expected)
    if number is not None:
        return _number(answer) == number
    if re.search("[,;]", expected):
        given, wanted = re.split("[,;]", answer), re.split("[,;]", expected)
        return len(given) == len(wanted) and all(map(is_right, given, wanted))
    return _words(answer) == _words(expected)


def _question(folder: Path, row: Mapping[str, Any]) -> Question:
    # Only the name counts: what a dataset calls a file must not lead out of its folder.
    name = Path(row.get("file_name") or "").name
    answer = row.get("Final answer", "?")
    return Question(
        task_id=row["task_id"],
        text=row["Question"],
        level=int(row["Level"]),
        answer=None if answer == "?" else str(answer),
        file=folder / name if name else None,
        notes=row.get("Annotator Metadata") or {},
    )


def _number(text: str) -> float | None:
    plain = text.strip().rstrip(".")
    digits = re.sub("[$€%,]", "", plain)
    return float(digits) if _NUMBER.fullmatch(plain) and re.search(r"\d", digits) else None


def _words(text: str) -> str:
    return re.sub(r"[^\w*]", "", text.casefold())
