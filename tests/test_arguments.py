"""An installed package can provide models, executors, stores and sources; a factory may be in the current folder."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from openskills.agent.models.open import open_model
from openskills.arguments import find_plugin, import_factory
from openskills.artifacts.memory import MemoryArtifactStore
from openskills.artifacts.open import open_artifact_store
from openskills.catalog.catalog import Catalog
from openskills.errors import InvalidArgument
from openskills.executors.open import open_executor
from openskills.session.memory import MemorySessionStore
from openskills.session.open import open_session_store
from openskills.settings import Settings

CODE = """
from pathlib import Path

from openskills.artifacts import MemoryArtifactStore
from openskills.catalog import FetchResult, Root
from openskills.session import MemorySessionStore
from openskills.testing import FakeExecutor, ScriptedModel


def model(name, settings, **options):
    return ScriptedModel([f"{name} {options['tone']}"])


def executor(settings):
    return FakeExecutor()


def sessions(url, settings, *, hook=None):
    return MemorySessionStore(hook)


def artifacts(url, settings):
    return MemoryArtifactStore()


class Shelf:
    def __init__(self, text, settings):
        self.label = text

    def fetch(self, progress):
        return FetchResult((Root(Path(self.label.removeprefix("acme-shelf://")), self.label),))
"""
POINTS = """
[openskills.models]
acme = acme_openskills:model
broken = acme_openskills:missing

[openskills.executors]
acme-box = acme_openskills:executor

[openskills.session_stores]
acmedb = acme_openskills:sessions

[openskills.artifact_stores]
acmeblob = acme_openskills:artifacts

[openskills.sources]
acme-shelf = acme_openskills:Shelf
"""


@pytest.fixture
def acme(tmp_path: Path) -> Iterator[Path]:
    """The distribution `acme-openskills`, as an installer leaves it in a site directory."""
    site = tmp_path / "site"
    metadata = site / "acme_openskills-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "acme_openskills.py").write_text(CODE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-openskills\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(POINTS)
    sys.path.insert(0, str(site))
    yield site
    sys.path.remove(str(site))
    sys.modules.pop("acme_openskills", None)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_env({"HOME": str(tmp_path)})


@pytest.mark.usefixtures("acme")
async def test_a_package_provides_one_of_each_by_name_or_scheme(tmp_path: Path, settings: Settings) -> None:
    model = open_model("acme/large", settings, tone="kindly")
    assert type(model).__name__ == "ScriptedModel"
    assert type(open_executor("acme-box", settings)).__name__ == "FakeExecutor"
    assert isinstance(open_session_store("acmedb://host/name", settings), MemorySessionStore)
    assert isinstance(open_artifact_store("acmeblob://bucket", settings), MemoryArtifactStore)
    (tmp_path / "shelf" / "tea").mkdir(parents=True)
    (tmp_path / "shelf" / "tea" / "SKILL.md").write_text("---\nname: tea\ndescription: Makes tea.\n---\n")
    catalog = Catalog.from_paths(f"acme-shelf://{tmp_path}/shelf", settings=settings)
    assert [skill.name for skill in catalog] == ["tea"]


@pytest.mark.usefixtures("acme")
def test_a_plugin_that_cannot_be_loaded_is_named_with_its_package(settings: Settings) -> None:
    with pytest.raises(InvalidArgument, match=r"cannot load 'broken' of acme-openskills \(acme_openskills:missing\)"):
        open_model("broken/x", settings)


def test_without_the_package_its_names_are_unknown(settings: Settings) -> None:
    assert find_plugin("openskills.models", "acme", "model") is None
    for call in (
        lambda: open_model("acme/large", settings),
        lambda: open_executor("acme-box", settings),
        lambda: open_session_store("acmedb://host", settings),
        lambda: open_artifact_store("acmeblob://bucket", settings),
        lambda: Catalog.from_paths("acme-shelf:///x", settings=settings),
    ):
        with pytest.raises(InvalidArgument):
            call()


def test_a_built_in_name_does_not_look_at_installed_packages(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from openskills.settings import Settings\n"
        "from openskills.session.open import open_session_store\n"
        "from openskills.artifacts.open import open_artifact_store\n"
        "from openskills.catalog.catalog import Catalog\n"
        f"settings = Settings.from_env({{'HOME': {str(tmp_path)!r}}})\n"
        "open_session_store('memory:', settings), open_artifact_store('memory:', settings)\n"
        f"Catalog.from_paths({str(tmp_path)!r}, settings=settings)\n"
        "print('importlib.metadata' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_factory_in_the_current_directory_is_found_and_hides_no_installed_module(tmp_path: Path) -> None:
    (tmp_path / "mine_here.py").write_text("import json\ndef make(*_): return json.__file__\n")
    (tmp_path / "json.py").write_text("raise SystemExit('hidden')")
    code = "from openskills.arguments import import_factory; print(import_factory('mine_here:make', 'model')())"
    console = [sys.executable, "-P", "-c", code]
    done = subprocess.run(console, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("json/__init__.py")


@pytest.mark.parametrize(
    ("dotted", "message"),
    [
        ("no_such_module_x:f", "cannot import 'no_such_module_x:f'"),
        ("json:nothing", "'json' has no callable 'nothing'"),
    ],
)
def test_what_is_not_there_is_named(dotted: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        import_factory(dotted, "model")


def test_a_module_that_fails_while_it_is_imported_is_named_with_its_error(tmp_path: Path) -> None:
    (tmp_path / "broken_here.py").write_text("raise RuntimeError('no data')\n")
    (tmp_path / "unfinished_here.py").write_text("def make(:\n")
    sys.path.insert(0, str(tmp_path))
    try:
        with pytest.raises(InvalidArgument, match="cannot import 'broken_here:make': RuntimeError: no data"):
            import_factory("broken_here:make", "model")
        with pytest.raises(InvalidArgument, match="cannot import 'unfinished_here:make': SyntaxError"):
            import_factory("unfinished_here:make", "model")
    finally:
        sys.path.remove(str(tmp_path))


@pytest.mark.parametrize(
    ("function", "given", "message"),
    [
        (Catalog.from_paths, ["skills", ["more"]], r"sources\[1\]: expected text or a PathLike, got list \['more'\]"),
        (open_executor, [5], "name: expected text, got int 5"),
        (open_model, [None], "name: expected text, got NoneType None"),
        (open_session_store, [["memory:"]], "url: expected text or None, got list"),
        (open_artifact_store, [Path("x")], "url: expected text or None, got PosixPath"),
    ],
)
def test_functions_refuse_arguments_of_a_wrong_type(
    settings: Settings, function: Callable[..., object], given: list[Any], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        function(*given, settings=settings)
    with pytest.raises(InvalidArgument, match="query: expected text, got int 5"):
        Catalog([], settings).search(cast("str", 5))
