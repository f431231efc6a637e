"""Which test proves which clause: rule id to `file::test`. `test_clauses.py` holds it against code and tests."""

from collections.abc import Mapping

from tests.spec.cases import CASES

_PARAMETRISED = "tests/spec/test_clauses.py::test_a_text_that_breaks_a_clause_is_reported_where_it_breaks_it"
_FILES = "tests/spec/test_files.py"

FOUND_ON_DISK: Mapping[str, tuple[str, ...]] = {
    "file-missing": (f"{_FILES}::test_a_folder_without_a_skill_file_is_reported",),
    "file-name": (f"{_FILES}::test_a_skill_file_in_other_letters_is_reported_and_not_read",),
    "file-type": (f"{_FILES}::test_a_directory_in_place_of_the_file_is_reported",),
    "file-unreadable": (f"{_FILES}::test_a_file_that_cannot_be_opened_is_reported",),
    "link-leaves-skill": (f"{_FILES}::test_a_link_out_of_the_folder_is_reported_and_not_followed",),
    "suppression-unknown": (f"{_FILES}::test_a_comment_that_names_no_rule_is_reported_with_the_nearest_rule",),
}
"""Faults of files rather than of their text."""

CLAUSES: Mapping[str, tuple[str, ...]] = {
    **FOUND_ON_DISK,
    **{case.rule: (f"{_PARAMETRISED}[{case.rule}]",) for case in CASES},
}
