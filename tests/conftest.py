"""What every test may ask for."""

import gc
import os
import re
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings

from tests.container_engine import container_engine as container_engine
from tests.long_form import examples
from tests.order import order_tests
from tests.servers.postgres import postgres_server as postgres_server
from tests.servers.redis import redis_server as redis_server
from tests.servers.s3 import s3_server as s3_server
from tests.servers.warm_openskills import end_warm_openskills as end_warm_openskills
from tests.servers.warm_openskills import warm_openskills as warm_openskills
from tests.workers import count_workers, run_in_workers


def has_room(directory: str, size: int) -> bool:
    """Whether temporary files and programs of this size can be put into a directory."""
    try:
        status = os.statvfs(directory)
    except OSError:
        return False
    executable = not status.f_flag & os.ST_NOEXEC
    return executable and os.access(directory, os.W_OK) and status.f_bavail * status.f_frsize >= size


# Temporary files in memory rather than on disk, if there is enough: what is tested waits for thousands of fsync calls.
MEMORY, ENOUGH = "/dev/shm", 3 * 1024**3
if "TMPDIR" not in os.environ and has_room(MEMORY, ENOUGH):
    os.environ["TMPDIR"] = tempfile.tempdir = MEMORY

# How long an example takes depends on the machine, so it is nothing that a test may fail on.
hypothesis_settings.register_profile("openskills", deadline=None, max_examples=examples(120))
hypothesis_settings.load_profile("openskills")

# Shells start what runs in the background with Ctrl-C ignored, and everything below inherits that; tests send Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Collecting makes a million objects, all of which stay: looking for garbage among them again and again takes seconds.
gc.disable()

_ROOT = "needs root: "
_MISSING = re.compile(r"needs the program '([^']+)'; on Debian: apt-get install ([\w.+-]+)")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The number of processes."""
    parser.addoption("--workers", type=int, default=1, help="run tests in so many processes (tests/workers.py)")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several workers, start what is expensive early and few times."""
    workers = count_workers(config)
    if workers > 1:
        items[:] = order_tests(items, workers, lambda item: item.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in several processes if that was asked for."""
    workers = min(count_workers(session.config), len(session.items))
    if workers < 2 or session.testsfailed or session.config.option.collectonly:
        return None
    return run_in_workers(session, workers)


def pytest_collection_finish() -> None:
    """From here on look for garbage, but not among what was collected: it is there until the end."""
    gc.enable()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end what was not tested here, and what would change that."""
    reports: list[pytest.TestReport] = terminalreporter.stats.get("skipped", [])
    for line in not_tested(str(report.longrepr) for report in reports):
        terminalreporter.write_line(line, yellow=True)


def not_tested(reasons: Iterable[str]) -> list[str]:
    """What to tell about tests that were skipped for these reasons: each missing program, and what only root can do."""
    found = [(_MISSING.search(reason), _ROOT in reason) for reason in reasons]
    programs = Counter((match[1], match[2]) for match, _ in found if match)
    lines = [
        f"not tested, because the program {program} is missing: {_tests(count)} (Debian: apt-get install {package})"
        for (program, package), count in sorted(programs.items())
    ]
    by_root = sum(root for _, root in found)
    return [*lines, *([f"not tested, because only root can: {_tests(by_root)}"] if by_root else [])]


def _tests(count: int) -> str:
    return f"{count} test{'s' if count > 1 else ''}"


def needs_root(why: str) -> pytest.MarkDecorator:
    """Skips a test for everybody but root, who runs it in CI."""
    return pytest.mark.skipif(os.geteuid() != 0, reason=f"{_ROOT}{why}")


def skip_unless_root(why: str) -> None:
    """The same inside a test or a fixture."""
    if os.geteuid() != 0:
        pytest.skip(f"{_ROOT}{why}")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio, which is what OpenSkill is written for."""
    return "asyncio"


RequireProgram = Callable[[str], str]
"""The type of the fixture `require_program`."""

SYSTEM_PACKAGES = Path(__file__).resolve().parents[1] / "scripts" / "system-packages.sh"


def package_of(program: str, listing: str) -> str:
    """The Debian package of a program, from the `program:package` lines of scripts/system-packages.sh."""
    for line in listing.splitlines():
        name, _, package = line.partition(":")
        if name == program and package:
            return package
    raise LookupError(f"{program} is not listed in scripts/system-packages.sh; add it there, so that CI installs it")


def find_program(program: str, *, search_path: str, ci: bool) -> str:
    """The path of a program that a test needs. Where it is missing the test is skipped; in CI it fails."""
    package = package_of(program, SYSTEM_PACKAGES.read_text("utf-8"))
    found = shutil.which(program, path=search_path)
    if found is None:
        reason = f"needs the program {program!r}; on Debian: apt-get install {package}"
        if ci:
            pytest.fail(f"{reason} (CI=true, so this is a failure and not a skip)")
        pytest.skip(reason)
    return found


@pytest.fixture
def require_program() -> RequireProgram:
    """Call it with the name of a program beyond Python: it gives the path, or ends the test with the reason."""
    # Debian installs servers such as nginx where an ordinary user's PATH does not lead.
    search_path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))
    return lambda program: find_program(program, search_path=search_path, ci=os.environ.get("CI") == "true")
