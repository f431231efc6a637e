"""Which modules are loaded ahead."""

from openskills.host.running.preloading import modules_ahead, worth_loading


def test_modules_of_python_are_loaded_ahead_wherever_they_are_imported() -> None:
    source = b"import os.path, numpy\nfrom decimal import Decimal\ndef f():\n    import csv\nfrom . import beside\n"
    assert modules_ahead(source) == ("json", "re", "os.path", "decimal", "csv")


def test_what_shows_something_when_it_is_imported_is_not_loaded() -> None:
    assert modules_ahead(b"import this, antigravity, turtle, tkinter.ttk") == ("json", "re")


def test_our_own_library_for_skills_is_loaded() -> None:
    assert modules_ahead(b"from openskills.skillkit import main\nimport openskills.catalog")[2:] == (
        "openskills.skillkit",
    )


def test_of_what_is_no_python_nothing_is_loaded() -> None:
    assert modules_ahead(b"def (") == ()
    assert modules_ahead(b"\x00") == ()


def test_a_call_can_ask_only_for_modules_of_python() -> None:
    told = ["csv", "encodings.utf_8_sig", "numpy", "this", "os; import x", "__main__", "openskills.skillkit.glob", ""]
    assert worth_loading(told) == ("csv", "encodings.utf_8_sig", "openskills.skillkit.glob")
