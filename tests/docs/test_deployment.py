"""The files in `deploy/` use settings, versions and files that exist."""

import re
from collections.abc import Mapping
from typing import Any, cast

import yaml

from openskills.settings import VARIABLES
from tests.architecture.project import ROOT

DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"


def load_all(name: str) -> list[Mapping[str, Any]]:
    return list(yaml.safe_load_all((KUBERNETES / name).read_text()))


def test_every_variable_is_a_setting() -> None:
    known = {name for names in VARIABLES.values() for name in names}
    files = [path for path in DEPLOY.rglob("*") if path.is_file()]
    used = {name for path in files for name in re.findall(r"\bOPENSKILL_[A-Z_]+", path.read_text())}
    assert "OPENSKILL_HOST_DATABASE" in used
    assert used <= known


def test_the_cluster_has_the_version_of_ray_that_drivers_have() -> None:
    (cluster,) = load_all("ray.yaml")
    (version,) = re.findall(r"(?m)^ray==(.*)$", (ROOT / "constraints.txt").read_text())
    assert cluster["spec"]["rayVersion"] == version


def test_the_kustomization_has_every_manifest() -> None:
    (kustomization,) = load_all("kustomization.yaml")
    listed = set(cast("list[str]", kustomization["resources"]))
    assert listed == {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}


def test_nodes_get_no_credentials_of_the_database_or_the_storage() -> None:
    (cluster,) = load_all("ray.yaml")
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    nodes = [compose["services"][name] for name in ("ray-head", "ray-node")]
    for text in (str(cluster), *map(str, nodes)):
        assert not re.search(r"POSTGRES|OPENSKILL_HOST_DATABASE|AWS_|secretRef", text)
    assert all(node["networks"] == ["ray"] for node in nodes)


def test_the_storage_gets_no_credentials_of_the_database() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for text in (str(load_all("storage.yaml")), *(str(compose["services"][name]) for name in ("s3", "s3-bucket"))):
        assert "AWS_SECRET_ACCESS_KEY" in text
        assert not re.search(r"POSTGRES|OPENSKILL_HOST_DATABASE|secretRef", text)
