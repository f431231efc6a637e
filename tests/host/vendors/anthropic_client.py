"""A client program for any version of Anthropic's SDK: `anthropic_client.py URL KEY`. Prints what happened as JSON.

It runs in a process of its own, with the interpreter of the environment that has the SDK.
"""

import io
import json
import sys
import zipfile
from typing import Any

import anthropic

SKILL = "---\nname: greeter\ndescription: Says {word} to people. Use when somebody wants to be greeted.\n---\n\n# Hi\n"
url, key = sys.argv[1:3]
client: Any = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)
is_beta = not hasattr(client, "skills")
skills = client.beta.skills if is_beta else client.skills
label = {"display_title" if is_beta else "display_name": "The Greeter"}
seen: dict[str, Any] = {"sdk": anthropic.__version__}


def files(word: str) -> list[tuple[str, bytes]]:
    return [("greeter/SKILL.md", SKILL.format(word=word).encode()), ("greeter/references/more.md", b"# More\n")]


def archive(word: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as packed:
        for name, data in files(word):
            packed.writestr(name, data)
    return made.getvalue()


def refused(name: str, call: Any) -> None:
    try:
        call()
    except anthropic.APIStatusError as error:
        body: Any = error.body
        seen[name] = [type(error).__name__, error.status_code, body["error"]["type"], body["error"]["message"]]
        seen["request_ids"] = body["request_id"] == error.response.headers["request-id"]
    else:
        seen[name] = None


made = skills.create(files=files("Hello"), **label)
seen["label"] = made.display_title if is_beta else made.display_name
seen["source"] = made.source if is_beta else made.source.type
seen["created"] = made.created_at if is_beta else made.created_at.year
refused("taken", lambda: skills.create(files=files("Hello"), **label))
first = made.latest_version if is_beta else made.latest_version_id
second = skills.versions.create(made.id, files=[("greeter.zip", archive("Moin"), "application/zip")])
seen["second"] = [second.name, second.description[:9]]
reference = second.version if is_beta else second.id
found = skills.retrieve(made.id)
seen["latest"] = (found.latest_version if is_beta else found.latest_version_id) == reference
seen["versions"] = len(list(skills.versions.list(made.id, limit=1)))
seen["listed"] = [one.id for one in skills.list(limit=1)] == [made.id]
seen["of_anthropic"] = len(list(skills.list(source="anthropic")))
seen["named_latest"] = skills.versions.retrieve("latest", skill_id=made.id).id == second.id
if hasattr(client.beta.skills.versions, "download"):
    data = client.beta.skills.versions.download(second.id, skill_id=made.id).read()
    seen["content"] = sorted(zipfile.ZipFile(io.BytesIO(data)).namelist())
refused("broken", lambda: skills.create(files=[("greeter/SKILL.md", b"---\nname: Bad Name\n---\n")]))
refused("unknown", lambda: skills.retrieve("skill_unknown"))
stranger: Any = anthropic.Anthropic(base_url=url, api_key="osk_wrong", max_retries=0)
refused("stranger", (stranger.beta.skills if is_beta else stranger.skills).list)
uploads = client.beta.files if is_beta else getattr(client, "files", client.beta.files)
file = uploads.upload(file=("data.txt", b"some text", "text/plain"))
seen["file"] = [file.filename, file.size_bytes, uploads.download(file.id).read().decode()]
seen["files"] = [one.id for one in uploads.list(limit=1)] == [file.id]
if not is_beta and hasattr(client, "files") and anthropic.__version__.startswith("2."):
    other = uploads.upload(file=("other.txt", b"x"), expires_in_seconds=3600)
    seen["named"] = [one.id for one in uploads.list(ids=[other.id, "file_unknown"])] == [other.id]
    seen["expires"] = (other.expires_at - other.created_at).total_seconds()
    uploads.delete(other.id)
seen["file_deleted"] = uploads.delete(file.id).id == file.id
if is_beta:
    refused("has_versions", lambda: skills.delete(made.id))
    seen["deleted"] = [skills.versions.delete(one, skill_id=made.id).type for one in (first, reference)]
else:
    seen["deleted"] = [skills.versions.delete(first, skill_id=made.id).type]
seen["gone"] = skills.delete(made.id).type
sys.stdout.write(json.dumps(seen))
