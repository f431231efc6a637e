"""SKILL.md as text: reading it, judging it, mending it, writing a new one. Pure: no file is touched here."""
