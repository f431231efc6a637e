"""How much of somebody's file is read before it is refused."""

MAX_FILE_BYTES = 1024 * 1024
"""A whole SKILL.md. The largest of 134 real ones has 73 KB."""

MAX_FRONTMATTER_CHARACTERS = 256 * 1024
"""What stands between the fences. The largest real one has 2 KB."""

MAX_DEPTH = 32
"""How deep lists and maps may be nested."""

MAX_KEYS = 10_000
"""How many keys and list items front matter may have in all."""
