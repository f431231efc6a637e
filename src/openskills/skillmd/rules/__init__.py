"""The rules of the format: one function per clause, one table of them all."""

from openskills.skillmd.rules.judge import FATAL, check, judge, lenient
from openskills.skillmd.rules.rule import Finding, Rule, Subject
from openskills.skillmd.rules.table import ALL, BODY_RULES, FOLDER_RULES, MANIFEST_RULES

__all__ = [
    "ALL",
    "BODY_RULES",
    "FATAL",
    "FOLDER_RULES",
    "MANIFEST_RULES",
    "Finding",
    "Rule",
    "Subject",
    "check",
    "judge",
    "lenient",
]
