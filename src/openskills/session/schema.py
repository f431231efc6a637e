"""The tables of conversations, as steps from nothing to what they are now. Pure; SQLite and PostgreSQL share them.

A database remembers the steps that were taken in it, and takes the rest when it is opened. A step that was released is
never changed: what is to be different is a new step.
"""

from openskills.errors import SkillError

Step = tuple[str, ...]

RECORD = "CREATE TABLE IF NOT EXISTS openskills_schema (version BIGINT NOT NULL PRIMARY KEY)"
VERSION = "SELECT coalesce(max(version), 0) FROM openskills_schema"
TAKEN = "INSERT INTO openskills_schema (version) VALUES ($1)"

STEPS: tuple[Step, ...] = (
    (
        # Ids are of any length and spelling, indexes are not: rows are found by digests of them.
        """
        CREATE TABLE openskills_sessions (
            id TEXT NOT NULL PRIMARY KEY,
            owner TEXT NOT NULL,
            app TEXT NOT NULL,
            username TEXT NOT NULL,
            name TEXT NOT NULL,
            revision BIGINT NOT NULL,
            begun TEXT NOT NULL,
            updated TEXT NOT NULL,
            state TEXT NOT NULL
        )
        """,
        # Text, not the JSON of a database: none of them keeps NUL, half characters and long numbers.
        """
        CREATE TABLE openskills_events (
            session TEXT NOT NULL REFERENCES openskills_sessions (id),
            seq BIGINT NOT NULL,
            id TEXT NOT NULL,
            body TEXT NOT NULL,
            PRIMARY KEY (session, seq),
            UNIQUE (session, id)
        )
        """,
    ),
    ("CREATE INDEX openskills_sessions_of_owner ON openskills_sessions (owner)",),
)


def missing_steps(version: int, *, place: str, steps: tuple[Step, ...] = STEPS) -> list[tuple[int, Step]]:
    """The steps that a database at this version has before it, with the version that each leads to.

    Raises `SkillError` for a version that only a newer OpenSkill can have left there.
    """
    if version > len(steps):
        raise SkillError(
            f"{place} was written by a newer OpenSkill: its tables have version {version}, this one knows"
            f" {len(steps)}; install the newer one, or choose another place",
            version=version,
            known=len(steps),
        )
    return [(number, step) for number, step in enumerate(steps, 1) if number > version]
