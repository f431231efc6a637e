"""One conversation at the command line: what goes with the next message, and a run for each."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from openskills.agent.attachments import Attachment
from openskills.agent.declared import Load
from openskills.agent.log import END
from openskills.agent.runner import Runner
from openskills.catalog.skill import Skill
from openskills.cli.chat_files import all_different, attachment, name_of, path_of, shown
from openskills.cli.chat_tokens import Tokens
from openskills.cli.chat_view import View
from openskills.cli.chat_words import files_in, first_unknown_skill, skills_in
from openskills.cli.output import plain
from openskills.errors import InvalidArgument, UnknownSkill
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.session import SkillSession

NO_SKILLS = "there are no skills here; --skills PATH says where some are"


@dataclass(slots=True)
class Talk:
    """A conversation that is open. `loads` go with every message, `files` with the next one."""

    runner: Runner
    runtime: SkillRuntime
    session: SkillSession
    view: View
    tokens: Tokens
    loads: dict[str, Load] = field(default_factory=dict[str, Load])
    files: list[Attachment] = field(default_factory=list[Attachment])

    def skill(self, name: str) -> Skill:
        """The skill that a person calls, also one that its author reserves for people.

        Raises `UnknownSkill`, and `InvalidArgument` for one that is hidden for another reason, or not for people.
        """
        snapshot = self.runtime.catalog.snapshot
        skill = snapshot.find(name)
        if not skill.manifest.user_invocable:
            raise InvalidArgument(skill.name, "its author keeps it for models (user-invocable); ask for what you want")
        if skill.name in snapshot.hidden and not skill.manifest.disable_model_invocation:
            raise InvalidArgument(skill.name, f"is hidden: {snapshot.hidden[skill.name].reason}")
        return skill

    def attach(self, path: str) -> None:
        """Let a file of this machine go with the next message."""
        file = attachment(path, field="attach")
        self.files.append(file)
        self.view.note(f"  attached: {shown(file)}")

    async def say(self, text: str, skills: Sequence[str] = ()) -> bool:
        """Send words, with the skills and the files that are named in them; true when an answer came.

        Raises `SkillError` when nothing could be sent. What goes with the next message is kept then.
        """
        wrong = first_unknown_skill(text, self._called)
        if wrong is not None:
            self._check_spelling(wrong)
        mentioned = [self.skill(name).name for name in skills_in(text, self._called)]
        sent = files_in(text, name_of)
        if not all_different(map(name_of, sent.files)):
            # By its path a person can tell them apart, and so can the model.
            sent = files_in(text, path_of)
        for path in sent.missing:
            self.view.note(("note", "yellow"), f": there is no file {plain(path)}; it is sent as text")
        files = [*self.files, *self._attached(sent.files)]
        named = {name: Load(name) for name in (*skills, *mentioned)}
        loads = {**named, **self.loads}
        with self.runtime.catalog.inviting(loads):
            return await self._run(sent.text, tuple(loads.values()), files)

    async def _run(self, text: str, loads: Sequence[Load], files: Sequence[Attachment]) -> bool:
        scope = self.session.scope
        self.view.begin()
        run = self.runner.run(user=scope.user, session=scope.session, message=text, files=files, loads=loads)
        kind = ""
        async with aclosing(run) as events:
            async for event in events:
                self.files.clear()
                self.view.show(event)
                kind = event.kind
        return kind == END

    def _attached(self, paths: Sequence[str]) -> list[Attachment]:
        files = [attachment(path, field="@") for path in paths]
        if all_different(file.name for file in files):
            return files
        return [replace(file, name=path) for file, path in zip(files, paths, strict=True)]

    def _called(self, name: str) -> str | None:
        snapshot = self.runtime.catalog.snapshot
        return name if snapshot.has(name) or name in snapshot.hidden else None

    def _check_spelling(self, name: str) -> None:
        """Raise `UnknownSkill` for what is nearly the name of a skill; `$5` and `$home` are just words."""
        try:
            self.runtime.catalog.get(name)
        except UnknownSkill as error:
            if error.near:
                raise
