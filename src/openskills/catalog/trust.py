"""What people have said about the places of projects, remembered by what was in them at that time."""

import json
import os
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from openskills.errors import InvalidArgument
from openskills.files import locked, replace_file_durably


class Answer(StrEnum):
    """What a person said when asked whether skills may be used."""

    YES = "yes"
    NO = "no"


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer about one place with one content. `project` is the real path of the project it was seen in."""

    project: str
    digest: str
    answer: Answer
    at: str

    def about(self, digest: str) -> Answer | None:
        """The answer, when it was about a place with this digest; otherwise nobody has decided."""
        return self.answer if self.digest == digest else None


class TrustStore:
    """The decisions by the real path of the place, in one file that only its owner can read and write.

    Several processes may change it at the same time; none loses what another wrote.
    """

    def __init__(self, config_dir: Path) -> None:
        self._file = config_dir / "trust.json"

    def decisions(self) -> dict[str, Decision]:
        """Every place that somebody has decided about. Raises `InvalidArgument` when the file is damaged."""
        try:
            content: Any = json.loads(self._file.read_text("utf-8"))
            return {str(place): _decision(entry) for place, entry in content["places"].items()}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise InvalidArgument("trust.json", f"{self._file} cannot be read: {error.strerror}") from None
        except (ValueError, LookupError, TypeError, AttributeError):
            raise InvalidArgument("trust.json", f"{self._file} is damaged; mend or remove it") from None

    def remember(self, project: Path, digests: Mapping[str, str], answer: Answer) -> None:
        """One answer for some places of a project, given by their real paths and digests, instead of earlier ones."""
        if not digests:
            return
        at = datetime.now(UTC).isoformat(timespec="seconds")
        found = os.path.realpath(project)
        with self._changing() as decisions:
            decisions.update({place: Decision(found, digest, answer, at) for place, digest in digests.items()})

    def forget(self, places: Collection[str]) -> None:
        """Take back what was said about these places."""
        if not places:
            return
        with self._changing() as decisions:
            for place in places:
                decisions.pop(place, None)

    @contextmanager
    def _changing(self) -> Generator[dict[str, Decision]]:
        """The decisions, for the block to change while nobody else does; what it leaves is kept."""
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self._file.with_name("trust.lock")):
            decisions = self.decisions()
            yield decisions
            content = {"places": {place: asdict(decision) for place, decision in decisions.items()}}
            replace_file_durably(self._file, json.dumps(content, indent=2, sort_keys=True).encode())


def _decision(entry: Any) -> Decision:
    return Decision(str(entry["project"]), str(entry["digest"]), Answer(entry["answer"]), str(entry["at"]))
