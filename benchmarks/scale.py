"""How each cost grows with the number of skills, sessions, clients, events and bytes: `make bench`.

Renews its section of docs/benchmarks.md and docs/benchmarks/scale-*.svg with `--write`.
"""

import sys

import scale_clients
import scale_files
import scale_sessions
import scale_skills
import scale_transcripts
from suite import Suite, main

SUITE = Suite(
    "scale",
    "Scaling",
    __doc__,
    "",
    {
        "skills": scale_skills.measure,
        "sessions": scale_sessions.measure,
        "clients": scale_clients.measure,
        "transcripts": scale_transcripts.measure,
        "files": scale_files.measure,
    },
    on_disk=True,
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
