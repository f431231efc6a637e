"""Anthropic's dialect of the skills and files APIs.

The shapes of the beta (SDK below 1) and of the current API differ in names only, so objects have the fields of both.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from openskills.errors import InvalidArgument
from openskills.host.http import Trace
from openskills.host.model import Failure
from openskills.host.skills import SHARED, ListPage, StoredFile, StoredSkill, StoredVersion
from openskills.host.vendors.uploads import MultipartUpload

_BETA = "skills-2025-10-02"
_MAX_LIMIT = 1000
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_MIN_EXPIRY, _MAX_EXPIRY = 3600, 7_776_000


class AnthropicDialect:
    """Answers for a client of Anthropic. `betas` is the header `anthropic-beta`."""

    request_id_header = b"request-id"
    has_default_version = False

    def __init__(self, betas: str) -> None:
        self.is_current = _BETA not in betas
        """False for the beta, in which versions have to be deleted before their skill."""

    def build_skill(self, skill: StoredSkill) -> dict[str, Any]:
        return {
            "id": skill.id,
            "type": "skill",
            "display_name": skill.display_name,
            "display_title": skill.display_name,
            "latest_version_id": skill.latest_id,
            "latest_version": str(skill.latest) if skill.latest else None,
            "shared": skill.owner == SHARED,
            "source": {"type": "custom"} if self.is_current else "custom",
            "created_at": _format_time(skill.created),
            "updated_at": _format_time(skill.updated),
        }

    def build_version(self, version: StoredVersion) -> dict[str, Any]:
        return {
            "id": version.id,
            "type": "skill_version",
            "skill_id": version.skill_id,
            "version": str(version.number),
            "name": version.name,
            "directory": version.name,
            "description": version.description,
            "digest": f"sha256:{version.digest}",
            "created_at": _format_time(version.created),
        }

    def build_file(self, file: StoredFile) -> dict[str, Any]:
        return {
            "id": file.id,
            "type": "file",
            "filename": file.name,
            "mime_type": file.mime_type,
            "size_bytes": file.size,
            "created_at": _format_time(file.created),
            "expires_at": None if file.expires is None else _format_time(file.expires),
            "downloadable": True,
        }

    def build_deleted(self, item: StoredSkill | StoredVersion | StoredFile) -> dict[str, Any]:
        if isinstance(item, StoredVersion):
            # The beta names a version by its number.
            return {"id": item.id if self.is_current else str(item.number), "type": "skill_version_deleted"}
        return {"id": item.id, "type": "skill_deleted" if isinstance(item, StoredSkill) else "file_deleted"}

    def build_page(self, items: Sequence[Mapping[str, Any]], *, has_more: bool) -> dict[str, Any]:
        page = build_page(items, has_more=has_more)
        return {**page, "next_page": f"page_{page['last_id']}" if has_more else None}

    def read_page(self, query: Mapping[str, str]) -> ListPage:
        """`limit`, and `page` or, for the files of the beta, `after_id`. Raises `InvalidArgument`."""
        page = query.get("page", query.get("after_id", ""))
        return ListPage(page.removeprefix("page_") or None, read_limit(query, _MAX_LIMIT))

    def read_expiry(self, form: MultipartUpload, now: float) -> float | None:
        text = form.fields.get("expires_in_seconds")
        return None if text is None else now + read_integer(text, "expires_in_seconds", _MIN_EXPIRY, _MAX_EXPIRY)

    def build_error(self, failure: Failure, trace: Trace) -> dict[str, Any]:
        kind = _ERROR_TYPES.get(failure.code, "api_error" if failure.code >= 500 else "invalid_request_error")
        error: dict[str, Any] = {"type": kind, "message": failure.message}
        if failure.details.get("reason") == "NAME_TAKEN":
            error["details"] = {"error_code": "skill_name_taken", "skill_id": failure.details.get("skill_id")}
        return {"type": "error", "error": error, "request_id": trace.id}


def build_page(items: Sequence[Mapping[str, Any]], *, has_more: bool) -> dict[str, Any]:
    """A part of a list, as both vendors have it."""
    first, last = (items[0]["id"], items[-1]["id"]) if items else (None, None)
    return {"data": list(items), "first_id": first, "last_id": last, "has_more": has_more}


def read_limit(query: Mapping[str, str], maximum: int) -> int:
    """The parameter `limit`. Raises `InvalidArgument`."""
    return read_integer(query.get("limit", "20"), "limit", 1, maximum)


def read_integer(text: str, field: str, minimum: int, maximum: int) -> int:
    """A number in a form or a query. Raises `InvalidArgument`."""
    if not (text.isascii() and text.isdigit() and len(text) < 12 and minimum <= int(text) <= maximum):
        raise InvalidArgument(field, f"{text[:50]!r} is not an integer from {minimum} to {maximum}")
    return int(text)


def _format_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
