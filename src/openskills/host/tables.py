"""The tables of the host's databases as migration steps, for SQLite and PostgreSQL (`postgres.translate_step`).

A released step is never changed; changes are new steps.
"""

from openskills.sql import MigrationStep

STEPS: tuple[MigrationStep, ...] = (
    (
        # Ids start with the time, so the primary key is in order of time.
        """
        CREATE TABLE history (
            id TEXT NOT NULL PRIMARY KEY,
            trace_id TEXT NOT NULL,
            who TEXT NOT NULL,
            skill_id TEXT NOT NULL,
            version TEXT NOT NULL,
            runner_type TEXT NOT NULL,
            began REAL NOT NULL,
            latency_ms REAL NOT NULL,
            success INTEGER NOT NULL,
            code INTEGER NOT NULL,
            message TEXT NOT NULL,
            bytes_in INTEGER NOT NULL,
            bytes_out INTEGER NOT NULL,
            input_digest TEXT NOT NULL
        ) WITHOUT ROWID
        """,
        # Separate, so that listing the history does not read bodies.
        "CREATE TABLE history_content (id TEXT NOT NULL PRIMARY KEY, input BLOB, output BLOB)",
        """
        CREATE TABLE answers (
            id TEXT NOT NULL PRIMARY KEY,
            request TEXT NOT NULL,
            token TEXT NOT NULL,
            expires REAL NOT NULL,
            status INTEGER,
            body BLOB
        )
        """,
        "CREATE INDEX answers_by_end ON answers (expires)",
        """
        CREATE TABLE runs (
            id TEXT NOT NULL PRIMARY KEY,
            principal TEXT NOT NULL,
            skill_id TEXT NOT NULL,
            trace_id TEXT NOT NULL,
            version TEXT NOT NULL,
            state TEXT NOT NULL,
            worker TEXT NOT NULL,
            created REAL NOT NULL,
            started REAL,
            ended REAL,
            cancel INTEGER NOT NULL DEFAULT 0,
            cut INTEGER NOT NULL DEFAULT 0,
            status INTEGER,
            result BLOB
        )
        """,
        "CREATE INDEX runs_by_end ON runs (ended)",
        """
        CREATE TABLE run_events (
            run TEXT NOT NULL,
            seq INTEGER NOT NULL,
            kind TEXT NOT NULL,
            at REAL NOT NULL,
            data BLOB NOT NULL,
            PRIMARY KEY (run, seq)
        ) WITHOUT ROWID
        """,
        "CREATE TABLE workers (id TEXT NOT NULL PRIMARY KEY, pid INTEGER NOT NULL, beat REAL NOT NULL)",
    ),
    (
        "ALTER TABLE answers ADD COLUMN worker TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE answers ADD COLUMN trace_id TEXT NOT NULL DEFAULT ''",
    ),
    (
        "ALTER TABLE history ADD COLUMN waited_ms REAL",
        "ALTER TABLE history ADD COLUMN ran_ms REAL",
        "DROP TABLE workers",
    ),
    (
        # Links and sessions of the console. `key_digest` is empty for a session that was opened with a link.
        "CREATE TABLE console_links (digest TEXT NOT NULL PRIMARY KEY, expires REAL NOT NULL) WITHOUT ROWID",
        """
        CREATE TABLE console_sessions (
            id TEXT NOT NULL PRIMARY KEY,
            digest TEXT NOT NULL UNIQUE,
            key_digest TEXT NOT NULL,
            created REAL NOT NULL,
            used REAL NOT NULL,
            expires REAL NOT NULL,
            address TEXT NOT NULL,
            browser TEXT NOT NULL
        )
        """,
    ),
    (
        "ALTER TABLE history ADD COLUMN state TEXT NOT NULL DEFAULT 'failed'",
        "UPDATE history SET state = 'succeeded' WHERE success <> 0",
        "ALTER TABLE history ADD COLUMN isolation TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE history ADD COLUMN memory_bytes INTEGER",
        # Names and milliseconds of the phases, as JSON.
        "ALTER TABLE history ADD COLUMN phases TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE runs ADD COLUMN kind TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE runs ADD COLUMN request BLOB",
    ),
    (
        # What several hosts share in PostgreSQL; with SQLite there are files instead.
        "CREATE TABLE workers (id TEXT NOT NULL PRIMARY KEY, beat REAL NOT NULL)",
        # `scopes` and `limits` are JSON.
        """
        CREATE TABLE api_keys (
            name TEXT NOT NULL PRIMARY KEY,
            digest TEXT NOT NULL UNIQUE,
            hint TEXT NOT NULL,
            created TEXT NOT NULL,
            expires TEXT,
            scopes TEXT NOT NULL,
            role TEXT NOT NULL,
            limits TEXT NOT NULL
        )
        """,
        """
        CREATE TABLE rate_buckets (
            name TEXT NOT NULL PRIMARY KEY,
            tokens REAL NOT NULL,
            taken INTEGER NOT NULL,
            at REAL NOT NULL
        )
        """,
        # Numbers that grow with every change of keys and skills.
        "CREATE TABLE host_changes (name TEXT NOT NULL PRIMARY KEY, number INTEGER NOT NULL)",
        # Calls that are running, as JSON. They have no row in the history yet.
        "CREATE TABLE history_starts (id TEXT NOT NULL PRIMARY KEY, worker TEXT NOT NULL, data TEXT NOT NULL)",
        "CREATE INDEX runs_by_worker ON runs (worker, ended)",
    ),
    (
        "ALTER TABLE workers ADD COLUMN machine TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE workers ADD COLUMN pid INTEGER NOT NULL DEFAULT 0",
    ),
)

UPLOAD_STEPS: tuple[MigrationStep, ...] = (
    (
        # An empty owner is that of shared skills. Numbers of versions are never used twice. Ids start with the time.
        """
        CREATE TABLE skills (
            id TEXT NOT NULL PRIMARY KEY,
            owner TEXT NOT NULL,
            name TEXT NOT NULL,
            display_name TEXT NOT NULL,
            created REAL NOT NULL,
            updated REAL NOT NULL,
            default_version INTEGER NOT NULL,
            last_version INTEGER NOT NULL,
            UNIQUE (owner, name)
        )
        """,
        """
        CREATE TABLE versions (
            id TEXT NOT NULL PRIMARY KEY,
            skill TEXT NOT NULL,
            number INTEGER NOT NULL,
            description TEXT NOT NULL,
            digest TEXT NOT NULL,
            size INTEGER NOT NULL,
            created REAL NOT NULL,
            UNIQUE (skill, number)
        )
        """,
        """
        CREATE TABLE files (
            id TEXT NOT NULL PRIMARY KEY,
            owner TEXT NOT NULL,
            name TEXT NOT NULL,
            mime_type TEXT NOT NULL,
            purpose TEXT NOT NULL,
            digest TEXT NOT NULL,
            size INTEGER NOT NULL,
            created REAL NOT NULL,
            expires REAL
        )
        """,
        "CREATE INDEX files_by_owner ON files (owner, id)",
    ),
    (
        # Contents in pieces, only in PostgreSQL: other hosts get them from here.
        """
        CREATE TABLE blob_parts (
            digest TEXT NOT NULL,
            number INTEGER NOT NULL,
            data BLOB NOT NULL,
            PRIMARY KEY (digest, number)
        )
        """,
        "CREATE TABLE host_changes (name TEXT NOT NULL PRIMARY KEY, number INTEGER NOT NULL)",
    ),
)
"""The tables of the database of uploads, which is a file of its own."""
