"""Tiny real wheels, for tests that install packages without a network."""

import io
import zipfile
from pathlib import Path

from openskills.executors.package_index import PackageIndex


def wheel(name: str, version: str, source: str) -> tuple[str, bytes]:
    """The file name and the bytes of a wheel with one module."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return f"{name}-{version}-py3-none-any.whl", data.getvalue()


def make_index(directory: Path) -> PackageIndex:
    """An index that is a new directory with the package `tiny`."""
    directory.mkdir()
    name, data = wheel("tiny", "1.0", "VERSION = 'tiny 1.0'\n")
    (directory / name).write_bytes(data)
    return PackageIndex(no_index=True, find_links=(str(directory),))
