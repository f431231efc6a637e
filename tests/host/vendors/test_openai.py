"""The unmodified OpenAI SDK against a real host, with only `base_url` changed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import APIStatusError, AuthenticationError, BadRequestError, ConflictError, NotFoundError, OpenAI

from tests.host.hosting import Served
from tests.host.vendors.uploading import WRITER, bearer, key_in, parts_of, skill_files, uploading_host, zip_of


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("openai")


@pytest.fixture(scope="module")
def key(directory: Path) -> str:
    return key_in(directory, "ada", scopes=WRITER)


@pytest.fixture(scope="module")
def host(directory: Path, key: str) -> Iterator[Served]:
    assert key
    with uploading_host(directory) as one:
        yield one


@pytest.fixture
def client(host: Served, key: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{host.url}/v1", api_key=key, max_retries=0) as made:
        yield made
        for skill in made.skills.list():
            made.skills.delete(skill.id)


def test_an_uploaded_skill_can_be_invoked_at_once(client: OpenAI, host: Served, key: str) -> None:
    made = client.skills.create(files=parts_of(skill_files()))
    assert (made.name, made.default_version, made.latest_version) == ("greeter", "1", "1")
    said = host.invoke("greeter", {"name": "Ada"}, headers=bearer(key)).json()
    assert said["data"] == {"greeting": "Hello Ada"}
    assert said["skill_id"] == "greeter~ada"


def test_versions_default_content_and_deletion_work(client: OpenAI, host: Served, key: str) -> None:
    made = client.skills.create(files=("skill.zip", zip_of(skill_files())))
    second = client.skills.versions.create(made.id, files=parts_of(skill_files(word="Moin")))
    assert second.version == "2"
    assert client.skills.retrieve(made.id).default_version == "1"
    assert host.invoke("greeter", {"name": "A"}, headers=bearer(key)).json()["data"] == {"greeting": "Hello A"}
    assert client.skills.update(made.id, default_version="2").default_version == "2"
    assert host.invoke("greeter", {"name": "A"}, headers=bearer(key)).json()["data"] == {"greeting": "Moin A"}
    assert (
        client.skills.content.retrieve(made.id).read()
        == client.skills.versions.content.retrieve("latest", skill_id=made.id).read()
    )
    assert [one.version for one in client.skills.versions.list(made.id, limit=1)] == ["2", "1"]
    assert client.skills.versions.delete("2", skill_id=made.id).version == "2"
    assert client.skills.retrieve(made.id).default_version == "1"
    with pytest.raises(BadRequestError, match="only version"):
        client.skills.versions.delete("1", skill_id=made.id)
    third = client.skills.versions.create(made.id, files=parts_of(skill_files(word="Ahoy")), default=True)
    assert third.version == "3"
    assert client.skills.delete(made.id).deleted
    with pytest.raises(NotFoundError):
        client.skills.retrieve(made.id)
    assert host.invoke("greeter", {"name": "A"}, headers=bearer(key)).status_code == 404


def test_lists_have_pages(client: OpenAI) -> None:
    made = [client.skills.create(files=parts_of(skill_files(name), name)).id for name in ("one", "two", "three")]
    assert [one.id for one in client.skills.list(limit=2)] == made[::-1]
    assert [one.id for one in client.skills.list(limit=1, order="asc")] == made


def test_files_are_stored_and_returned(client: OpenAI) -> None:
    made = client.files.create(file=("data.csv", b"a,b\n1,2\n"), purpose="user_data")
    assert (made.filename, made.bytes) == ("data.csv", 8)
    assert client.files.content(made.id).read() == b"a,b\n1,2\n"
    assert [one.id for one in client.files.list()] == [made.id]
    expiring = client.files.create(
        file=("b.txt", b"b"), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert expiring.expires_at == expiring.created_at + 3600
    assert [one.id for one in client.files.list(purpose="batch")] == [expiring.id]
    client.files.delete(expiring.id)
    assert client.files.delete(made.id).deleted
    with pytest.raises(NotFoundError):
        client.files.retrieve(made.id)


def test_errors_are_those_of_openai(client: OpenAI, host: Served) -> None:
    client.skills.create(files=parts_of(skill_files()))
    with pytest.raises(ConflictError) as taken:
        client.skills.create(files=parts_of(skill_files()))
    assert taken.value.code == "skill_name_taken"
    broken = {**skill_files("other"), "SKILL.md": b"---\nname: Other_Name\n---\n"}
    with pytest.raises(BadRequestError, match=r"SKILL.md:2.*name") as refused:
        client.skills.create(files=parts_of(broken))
    assert refused.value.param == "files"
    with pytest.raises(NotFoundError, match="skill_unknown"):
        client.skills.retrieve("skill_unknown")
    stranger = OpenAI(base_url=f"{host.url}/v1", api_key="osk_wrong", max_retries=0)
    with pytest.raises(AuthenticationError):
        stranger.skills.list()
    with pytest.raises(APIStatusError) as wrong:
        client.post("/skills/x/content", cast_to=object)
    assert wrong.value.status_code == 405
