"""The main job, from a request in words to a file, with what a user has: skills, a sandbox, a session in SQLite."""

from pathlib import Path

from demo_paper import Paper
from demo_timeline import timeline
from demo_tokens import Requests, per_skill
from demo_words import Words

from openskills.agent.agent import ARTIFACT, END, ERROR, Agent, Callbacks
from openskills.agent.runner import Attachment, Runner
from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.store import Scope, read_artifact
from openskills.catalog.catalog import Catalog
from openskills.prompt.overview import overview
from openskills.runtime.runtime import SkillRuntime
from openskills.session.open import DEFAULT_FILE
from openskills.session.sqlite import SqliteSessionStore
from openskills.session.store import SessionKey
from openskills.settings import Settings
from openskills.skillmd.problem import select_errors

APP, YOU, SESSION = "demo", "you", "first"
TABLE = """\
month,region,amount,cost
2026-01,north,1200,830
2026-02,north,1340,905
2026-03,north,,870
2026-04,north,1510,940
2026-05,north,1485,930
2026-06,north,1730,1015
"""
"""The user's file. In one month the amount is missing, which a report has to mention."""


class Job:
    """Two turns of one session, with a restart between them. `failures` has what did not go as it should."""

    def __init__(self, directory: Path, settings: Settings, words: Words, paper: Paper) -> None:
        self._directory = directory
        self._settings = settings
        self._words = words
        self._paper = paper
        self._requests = Requests()
        self._catalog = Catalog.from_paths(directory / "skills", settings=settings)
        self.failures: list[str] = []

    async def run(self) -> None:
        """All of it."""
        self._discover()
        self._show()
        self._request()
        self._paper.heading(self._words.timeline)
        answer = await self._turn(self._words.asked, Attachment("sales.csv", TABLE.encode()), makes="out/report.md")
        self._paper.heading(self._words.answer)
        self._paper.lines(answer.splitlines())
        await self._go_on()
        self._costs()

    def _discover(self) -> None:
        skills = self._catalog.skills
        self._paper.heading(self._words.found.format(count=len(skills)))
        self._paper.lines([", ".join(skill.name for skill in skills)])
        for problem in select_errors(self._catalog.problems):
            place = Path(problem.path).relative_to(self._directory)
            self._paper.lines([self._words.broken.format(problem=f"{place}:{problem.line}: {problem.message}")])

    def _show(self) -> None:
        shown = overview(self._catalog.skills, "bullets")
        self._paper.heading(self._words.overview.format(tokens=shown.tokens))
        lines = [line for line in shown.text.splitlines() if line.startswith("- ")]
        self._paper.lines((line if len(line) <= 100 else f"{line[:99].rstrip()}…" for line in lines), dim=True)

    def _request(self) -> None:
        words, rows = self._words, TABLE.splitlines()
        self._paper.heading(words.request)
        self._paper.lines([words.asked, words.attached.format(name="sales.csv", bytes=len(TABLE))])
        self._paper.lines([*rows[:4], "…"], dim=True)

    async def _turn(self, message: str, *files: Attachment, makes: str) -> str:
        """One message of the user to the answer, printed as a timeline. What it makes must be in the artifact store."""
        before = len(self._requests.asked)
        store = SqliteSessionStore(self._settings.state_dir / DEFAULT_FILE)
        artifacts = FileArtifactStore(self._settings.state_dir / "artifacts")
        runtime = SkillRuntime(self._catalog, "auto", artifacts=artifacts, store=store, settings=self._settings)
        async with runtime:
            agent = Agent("assistant", "rule", runtime, callbacks=Callbacks(before_model=self._requests.note))
            reply = await Runner(APP, agent).reply(user=YOU, session=SESSION, message=message, files=files)
            kept = {str(event.payload["name"]) for event in reply.events if event.kind == ARTIFACT}
            if makes in kept:
                await read_artifact(artifacts, Scope(APP, YOU, SESSION), makes)
            else:
                self.failures.append(f"{makes} was not made")
        await store.close()
        moments = timeline(reply.events, self._requests.asked[before:], self._words)
        for moment in moments:
            since = (moment.at - moments[0].at).total_seconds()
            self._paper.row(since, moment.what, moment.text, failed=moment.failed)
        ended = reply.events[-1]
        if ended.kind == ERROR or ended.kind != END:
            self.failures.append(str(ended.payload.get("message") or ended.kind))
        return reply.text

    async def _go_on(self) -> None:
        """The same session once more, with nothing but what is on disk."""
        store = SqliteSessionStore(self._settings.state_dir / DEFAULT_FILE)
        found = await store.get(SessionKey(APP, YOU, SESSION))
        await store.close()
        self._paper.heading(self._words.restarted.format(events=len(found.events) if found else 0))
        await self._turn(self._words.asked_again, makes="out/chart.svg")

    def _costs(self) -> None:
        words, requests, skills = self._words, self._requests, self._catalog.skills
        at_once = requests.at_once(skills)
        listed, full = per_skill(skills)
        self._paper.heading(words.tokens_heading)
        self._paper.lines(
            [
                words.spent.format(total=requests.total, requests=len(requests.asked)),
                words.at_once.format(total=at_once, count=len(skills)),
                words.saved.format(saved=requests.saved(skills, len(skills)), count=len(skills)),
                words.grows.format(*(requests.saved(skills, count) for count in (20, 50, 134))),
                words.each.format(listed=listed, full=full),
            ]
        )
