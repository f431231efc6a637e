"""OpenAI's dialect of the skills and files APIs."""

from collections.abc import Mapping, Sequence
from typing import Any

from openskills.errors import InvalidArgument
from openskills.host.http import Trace
from openskills.host.model import Failure
from openskills.host.skills import SHARED, ListPage, StoredFile, StoredSkill, StoredVersion
from openskills.host.vendors.anthropic import build_page, read_integer, read_limit
from openskills.host.vendors.uploads import MultipartUpload

_MAX_LIMIT = 100
_ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_MIN_EXPIRY, _MAX_EXPIRY = 3600, 2_592_000


class OpenaiDialect:
    """Answers for a client of OpenAI."""

    request_id_header = b"x-request-id"
    has_default_version = True
    is_current = True

    def build_skill(self, skill: StoredSkill) -> dict[str, Any]:
        return {
            "id": skill.id,
            "object": "skill",
            "name": skill.name,
            "description": skill.description,
            "shared": skill.owner == SHARED,
            "default_version": str(skill.default),
            "latest_version": str(skill.latest),
            "created_at": int(skill.created),
        }

    def build_version(self, version: StoredVersion) -> dict[str, Any]:
        return {
            "id": version.id,
            "object": "skill.version",
            "skill_id": version.skill_id,
            "version": str(version.number),
            "name": version.name,
            "description": version.description,
            "digest": f"sha256:{version.digest}",
            "created_at": int(version.created),
        }

    def build_file(self, file: StoredFile) -> dict[str, Any]:
        return {
            "id": file.id,
            "object": "file",
            "bytes": file.size,
            "filename": file.name,
            "purpose": file.purpose,
            "status": "processed",
            "created_at": int(file.created),
            "expires_at": None if file.expires is None else int(file.expires),
        }

    def build_deleted(self, item: StoredSkill | StoredVersion | StoredFile) -> dict[str, Any]:
        kinds = {StoredSkill: "skill.deleted", StoredVersion: "skill.version.deleted", StoredFile: "file"}
        found: dict[str, Any] = {"id": item.id, "object": kinds[type(item)], "deleted": True}
        return {**found, "version": str(item.number)} if isinstance(item, StoredVersion) else found

    def build_page(self, items: Sequence[Mapping[str, Any]], *, has_more: bool) -> dict[str, Any]:
        return {"object": "list", **build_page(items, has_more=has_more)}

    def read_page(self, query: Mapping[str, str]) -> ListPage:
        """`limit`, `after` and `order`. Raises `InvalidArgument`."""
        order = query.get("order", "desc")
        if order not in {"asc", "desc"}:
            raise InvalidArgument("order", f"{order[:50]!r} is not one of asc, desc")
        return ListPage(query.get("after") or None, read_limit(query, _MAX_LIMIT), order == "desc")

    def read_expiry(self, form: MultipartUpload, now: float) -> float | None:
        text = form.fields.get("expires_after[seconds]")
        return None if text is None else now + read_integer(text, "expires_after", _MIN_EXPIRY, _MAX_EXPIRY)

    def build_error(self, failure: Failure, trace: Trace) -> dict[str, Any]:
        del trace
        kind = _ERROR_TYPES.get(failure.code, "server_error" if failure.code >= 500 else "invalid_request_error")
        code = str(failure.details.get("reason", "")).lower() or None
        taken = {"name_taken": "skill_name_taken", "unauthorized": "invalid_api_key"}
        error: dict[str, Any] = {
            "message": failure.message,
            "type": kind,
            "param": failure.details.get("field"),
            "code": taken.get(code or "", code),
        }
        if "skill_id" in failure.details:
            error["skill_id"] = failure.details["skill_id"]
        return {"error": error}
