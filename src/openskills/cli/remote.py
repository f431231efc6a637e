"""`openskills push`, `pull` and `versions`: skills of a host that takes uploads."""

import json
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast
from urllib.parse import quote

import typer

from openskills.cli.output import CliProgress, Column, Row, escape_line, say_text, show_table
from openskills.cli.parameters import HostUrl, Json, Text, argument, option
from openskills.errors import Forbidden, HostUnavailable, InvalidArgument, SkillError, Unauthorized, UnknownSkill
from openskills.settings import Settings

if TYPE_CHECKING:
    import httpx2

_TIMEOUT = 120.0
_MAX_DOWNLOAD = 1 << 30
_MAX_SHOWN = 5

Name = Annotated[str, argument("NAME", "The name of a skill, or its id.")]


class RemoteSkills:
    """A client of `/v1/skills`. Errors of the host are raised as `SkillError`."""

    def __init__(self, client: "httpx2.Client", url: str) -> None:
        self._client = client
        self._url = url

    def request(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        """Send a request and return the JSON of the response."""
        return _parse(self._send(method, path, **more).content, self._url)

    def find(self, name: str) -> dict[str, Any]:
        """The skill with this name or id; a private one has precedence. Raises `UnknownSkill`."""
        found: dict[str, Any] | None = None
        names: list[str] = []
        for skill in self.list_all("/v1/skills"):
            names.append(str(skill.get("name")))
            if skill.get("id") == name or (skill.get("name") == name and (found is None or not skill.get("shared"))):
                found = skill
        if found is None:
            from difflib import get_close_matches

            raise UnknownSkill(name, get_close_matches(name, names, n=3))
        return found

    def list_all(self, path: str) -> Iterator[dict[str, Any]]:
        """All items of a list, page by page."""
        after = ""
        while True:
            page = self.request("GET", f"{path}?limit=100{after}")
            items = cast("list[dict[str, Any]]", page.get("data") or [])
            yield from items
            if not page.get("has_more") or not items:
                return
            after = f"&after={items[-1]['id']}"

    def download(self, path: str, into: Path, progress: CliProgress) -> None:
        """Download a file."""
        import httpx2

        try:
            with self._client.stream("GET", f"{self._url}{path}") as response, into.open("wb") as file:
                if response.status_code != 200:
                    response.read()
                    raise _build_error(response, self._url)
                total = int(response.headers.get("content-length", "0")) or None
                for chunk in response.iter_bytes():
                    file.write(chunk)
                    progress(f"downloading {into.name}", file.tell(), total)
                    if file.tell() > _MAX_DOWNLOAD:
                        raise HostUnavailable(f"{self._url}{path} is larger than {_MAX_DOWNLOAD:,} bytes")
        except httpx2.RequestError as error:
            raise self._unreachable(error) from None

    def upload(self, path: str, archive: Path, **fields: str) -> "httpx2.Response":
        """Upload an archive and return the response, also one of status 409."""
        with archive.open("rb") as file:
            files = {"files": (f"{archive.stem}.zip", file, "application/zip")}
            return self._send("POST", path, files=files, data=fields, accept=(409,))

    def _send(self, method: str, path: str, *, accept: tuple[int, ...] = (), **more: Any) -> "httpx2.Response":
        import httpx2

        try:
            response = self._client.request(method, f"{self._url}{path}", **more)
        except httpx2.RequestError as error:
            raise self._unreachable(error) from None
        if response.status_code != 200 and response.status_code not in accept:
            raise _build_error(response, self._url)
        return response

    def _unreachable(self, error: Exception) -> HostUnavailable:
        advice = "start one with `openskills serve`, or set OPENSKILL_HTTP_BASE_URL to the URL of another"
        return HostUnavailable(f"cannot connect to a skill host at {self._url} ({error}); {advice}")


def _parse(body: bytes, url: str) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise HostUnavailable(f"{url} did not answer with a JSON object; is it a skill host?")
    return cast("dict[str, Any]", found)


def _build_error(response: "httpx2.Response", url: str) -> SkillError:
    try:
        found: Any = json.loads(response.content)
        message = str(found["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return HostUnavailable(f"{url} answered with status {response.status_code}; is it a skill host?")
    if response.status_code == 401:
        return Unauthorized(f"{message}; set OPENSKILL_API_KEY")
    return Forbidden(message) if response.status_code == 403 else SkillError(message)


@contextmanager
def open_remote(url: str | None, settings: Settings) -> Generator[RemoteSkills]:
    """A client of the host at `url`, by default that of the settings, with the key of the environment."""
    import httpx2

    from openskills.host.client.transport import bearer_header, parse_base_url

    base = parse_base_url(url or settings.http_base_url, name="--url" if url else "OPENSKILL_HTTP_BASE_URL")
    headers = {"Authorization": bearer_header(settings.host_api_key)} if settings.host_api_key else {}
    with httpx2.Client(headers=headers, timeout=_TIMEOUT) as client:
        yield RemoteSkills(client, base)


def push(
    settings: Settings,
    directory: Annotated[str, argument("DIR", "The folder of the skill.")],
    url: HostUrl = None,
    as_json: Json = False,
) -> None:
    """Upload a skill to a host, as a new skill or as the next version of one.

    The host validates it and serves the new version at once, over HTTP and MCP. Files of version control and of
    environments are left out. If the latest version has the same files, nothing is uploaded.

    Examples:
      openskills push skills/pdf-tools
      openskills push . --url https://skills.example.org

    The key in OPENSKILL_API_KEY needs the scope skills:write (the skill is private), or skills:publish (it is for
    everybody): openskills keys new me --scope '*' --scope skills:write
    """
    from openskills.catalog.sources.archive import pack_folder
    from openskills.catalog.validate import resolve_skill_folder, validate

    folder = resolve_skill_folder(directory)
    checked = validate(folder)
    if not checked.is_valid:
        message = f"{directory} is not valid; `openskills validate {directory}` lists the problems"
        raise SkillError(f"{message}: {next(one.message for one in checked.problems if one.severity == 'error')}")
    name = checked.name or folder.name
    with (
        tempfile.TemporaryDirectory(prefix="openskills-") as scratch,
        open_remote(url, settings) as remote,
        CliProgress(f"uploading {escape_line(name)}"),
    ):
        archive = Path(scratch, f"{name}.zip")
        digest, _ = pack_folder(folder, name, archive)
        pushed = _upload(remote, archive, f"sha256:{digest}")
    state = "uploaded" if pushed["uploaded"] else "unchanged"
    text = f"{state} {escape_line(name)} version {pushed['version']} ({pushed['skill_id']})"
    say_text(text, json=as_json and pushed)


def _upload(remote: RemoteSkills, archive: Path, digest: str) -> dict[str, Any]:
    response = remote.upload("/v1/skills", archive)
    found = _parse(response.content, "the host")
    if response.status_code == 200:
        return {"skill_id": found["id"], "version": found["latest_version"], "digest": digest, "uploaded": True}
    path = f"/v1/skills/{found['error']['skill_id']}"
    latest = remote.request("GET", f"{path}/versions/latest")
    is_new = latest.get("digest") != digest
    if is_new:
        latest = _parse(remote.upload(f"{path}/versions", archive, default="true").content, "the host")
    else:
        remote.request("POST", path, json={"default_version": str(latest["version"])})
    return {"skill_id": latest["skill_id"], "version": latest["version"], "digest": digest, "uploaded": is_new}


def pull(
    settings: Settings,
    name: Name,
    into: Annotated[
        Text, option("DIR", "Where to put the folder of the skill.", show_default="the current directory")
    ] = None,
    version: Annotated[str, option("N", "A version, latest or default.")] = "default",
    force: Annotated[bool, typer.Option("--force", help="Replace a folder that has other files.")] = False,
    url: HostUrl = None,
    as_json: Json = False,
) -> None:
    """Download a skill from a host into a folder with its name.

    The digest of the download is checked. A folder that is one of the versions of this skill is replaced; one with
    other files is replaced with --force only.

    Examples:
      openskills pull pdf-tools
      openskills pull pdf-tools --version 2 --into vendor/skills --force
    """
    from openskills.catalog.sources.archive import hash_content, pack_folder, unpack

    parent = Path(into or ".")
    with (
        tempfile.TemporaryDirectory(prefix="openskills-") as scratch,
        open_remote(url, settings) as remote,
        CliProgress(f"downloading {escape_line(name)}") as progress,
    ):
        skill = remote.find(name)
        path = f"/v1/skills/{skill['id']}/versions"
        found = remote.request("GET", f"{path}/{quote(version, safe='')}")
        archive = Path(scratch, "skill.zip")
        remote.download(f"{path}/{found['version']}/content", archive, progress)
        digest = f"sha256:{hash_content(archive)[0]}"
        if digest != found.get("digest"):
            raise SkillError(f"the download has {digest}, but version {found['version']} is {found.get('digest')}")
        unpack(archive, Path(scratch, "unpacked"), label=name)
        folders = list(Path(scratch, "unpacked").iterdir())
        if len(folders) != 1 or not folders[0].is_dir():
            raise HostUnavailable(f"the archive of version {found['version']} is not one folder; is it a skill host?")
        fresh = folders[0]
        target = parent / fresh.name
        if target.exists() and not force:
            known = [one.get("digest") for one in remote.list_all(path)]
            is_skill = (target / "SKILL.md").is_file()
            ours = pack_folder(target, target.name, Path(scratch, "local.zip"))[0] if is_skill else ""
            if f"sha256:{ours}" not in known:
                raise InvalidArgument("--force", _describe_changes(target, fresh))
        _replace(target, fresh)
    result = {"path": str(target), "skill_id": skill["id"], "version": found["version"], "digest": digest}
    say_text(f"{target}: version {found['version']}, {digest}", json=as_json and result)


def _describe_changes(target: Path, fresh: Path) -> str:
    def read(folder: Path) -> dict[str, bytes]:
        files = (path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}

    ours, theirs = read(target), read(fresh)
    changed = sorted(path for path in ours if ours[path] != theirs.get(path))
    more = f" and {len(changed) - _MAX_SHOWN} more" if len(changed) > _MAX_SHOWN else ""
    shown = f" ({', '.join(map(escape_line, changed[:_MAX_SHOWN]))}{more})" if changed else ""
    return f"{target} has changes that no version on the host has{shown}; --force replaces the folder"


def _replace(target: Path, fresh: Path) -> None:
    from openskills.filesystem import scratch_directory

    target.parent.mkdir(parents=True, exist_ok=True)
    with scratch_directory(target.parent) as scratch:
        shutil.copytree(fresh, scratch / "new")
        exists = os.path.lexists(target)
        if exists:
            target.rename(scratch / "old")
        try:
            (scratch / "new").rename(target)
        except OSError:
            # What the user had must not be removed with the scratch directory.
            if exists:
                (scratch / "old").rename(target)
            raise


def versions(settings: Settings, name: Name, url: HostUrl = None, as_json: Json = False) -> None:
    """List the versions of a skill on a host, latest first.

    Example:
      openskills versions pdf-tools

    In a pipe each version is one line of tab-separated fields: number, default or not, creation (UTC), digest and
    description.
    """
    with open_remote(url, settings) as remote:
        skill = remote.find(name)
        found = list(remote.list_all(f"/v1/skills/{skill['id']}/versions"))
    rows: list[Row] = []
    for one in found:
        created = datetime.fromtimestamp(int(one.get("created_at") or 0), UTC).isoformat(timespec="seconds")
        number, texts = str(one.get("version")), (str(one.get(key) or "") for key in ("digest", "description"))
        rows.append((number, "default" if number == str(skill.get("default_version")) else "", created, *texts))
    columns = (Column("version", "bold cyan"), "default", "created", "digest", Column("description", wide=True))
    show_table(columns, rows, "no versions", as_json and {"skill": skill, "versions": found})
