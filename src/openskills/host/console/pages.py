"""Pages of the console: routing, access, rendering with Jinja2 and Markdown, languages, static files, security headers.

A screen is a module beside this one with a tuple `PAGES`, listed in `SCREENS`. Everything that a page shows is escaped
by the templates; scripts and styles come from this host only.
"""

import gzip
import hashlib
import importlib
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from mimetypes import guess_type
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import jinja2
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markupsafe import Markup, escape
from starlette.routing import compile_path

from openskills.errors import SkillError, UnsupportedMedia
from openskills.host import http
from openskills.host.auth import ROLES, Principal
from openskills.host.console.access import (
    SESSION_SECONDS,
    USED_INTERVAL,
    Console,
    build_cookie,
    check_same_origin,
    cookie_name,
    find_handler,
    read_cookie,
)
from openskills.host.http import ClientDisconnect, HttpExchange, HttpRefusal, HttpResponse, read_body
from openskills.host.model import Failure
from openskills.host.parts import HostParts
from openskills.tokens import estimate_tokens
from openskills.version import __version__

LANGUAGES = {"en": "English", "zh": "中文"}
"""The languages of the console. English texts are in the templates, others in `locale/LANGUAGE/SCREEN.json`."""
THEMES = ("auto", "light", "dark")
_PREFERENCE_SECONDS = 400 * 24 * 60 * 60.0
_LANGUAGE_COOKIE, _THEME_COOKIE = "openskills_language", "openskills_theme"
_MAX_FORM = 1024 * 1024
_MIN_COMPRESSED = 1_000
_PACKAGE = "openskills.host.console"
_FOLDER = Path(__file__).parent
_STATIC = "/console/static"


class ConsoleScreen(NamedTuple):
    """A screen: the module with its pages, and the entry in the navigation, if it has one.

    `needs_cluster`: only on hosts that use a Ray cluster or share a database.
    """

    module: str
    path: str = ""
    title: str = ""
    role: str = "read"
    needs_cluster: bool = False


SCREENS = (
    ConsoleScreen("catalog", "/", "Catalog"),
    ConsoleScreen("skill"),
    ConsoleScreen("try_it", "/console/try", "Try it", "run"),
    ConsoleScreen("conversations", "/console/conversations", "Conversations"),
    ConsoleScreen("runs", "/console/runs", "Runs"),
    ConsoleScreen("cluster", "/console/cluster", "Cluster", "admin", needs_cluster=True),
    ConsoleScreen("host", "/console/host", "Host"),
)
"""All screens, in the order of the navigation."""


class ConsolePage(NamedTuple):
    """A page or action of a screen. `path` may have parameters such as `{name}`; `role` is what the caller needs."""

    method: str
    path: str
    handler: "PageHandler"
    role: str = "read"
    screen: str = ""


# Styles and scripts only as files of this host; nothing of this console can be framed.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Mapping[str, str] = {
    "content-security-policy": _POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    # Not `no-referrer`: with it browsers send `Origin: null` with forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=()",
    "cache-control": "no-store",
}


@dataclass(slots=True)
class PageRequest:
    """The request of a page. `query` has the last value of each parameter, `params` those of the path.

    `principal` is None only on pages without access control; `session` is the id of the caller's console session.
    """

    exchange: HttpExchange
    parts: HostParts | None
    principal: Principal | None
    query: Mapping[str, str]
    params: Mapping[str, str]
    language: str
    theme: str
    session: str | None = None
    screen: str = ""

    @property
    def caller(self) -> Principal:
        """Who asks. Only for pages with access control."""
        assert self.principal is not None  # noqa: S101 - checked before the handler is called
        return self.principal

    @property
    def host(self) -> HostParts:
        """The parts of the host. Only for pages with access control."""
        assert self.parts is not None  # noqa: S101 - checked before the handler is called
        return self.parts

    @property
    def console(self) -> Console:
        return self.host.catalogs

    @property
    def is_partial(self) -> bool:
        """Whether htmx asks for a part of the page."""
        return self.exchange.headers.get(b"hx-request-type") == b"partial"

    def translate(self, message: str, **values: object) -> str:
        """A message in the language of the page, with values for its placeholders."""
        return translate(self.language, message).format(**values)

    def render(
        self,
        template: str,
        context: Mapping[str, Any],
        *,
        block: str | None = None,
        status: int = 200,
        headers: Iterable[tuple[str, str]] = (),
    ) -> HttpResponse:
        """A page. If htmx asked for a part of it, only the template's block `block` is rendered."""
        environment = _get_environment(self.language)
        found = environment.get_template(template)
        values = {**self._layout(), **context}
        if block is not None and self.is_partial:
            html = "".join(found.blocks[block](found.new_context(values)))
        else:
            html = found.render(values)
        return build_page(self.exchange, html, status=status, headers=headers)

    def render_text(self, template: str, context: Mapping[str, Any]) -> str:
        """The HTML of a template, for a part of a page that is sent as an event."""
        return _get_environment(self.language).get_template(template).render({**self._layout(), **context})

    def redirect(self, address: str, *, headers: Iterable[tuple[str, str]] = ()) -> HttpResponse:
        """Go to another address of this host; htmx is told to load it as a page."""
        address = self.root + address
        if b"hx-request" in self.exchange.headers:
            return build_page(self.exchange, "", headers=[("hx-redirect", address), *headers])
        return build_page(self.exchange, "", status=303, headers=[("location", address), *headers])

    async def form(self) -> dict[str, str]:
        """The fields of a form in the body, the last one of each name. Raises `UnsupportedMedia` and `HttpRefusal`."""
        body = await read_body(self.exchange, _MAX_FORM)
        kind = (self.exchange.header(b"content-type") or "").partition(";")[0].strip()
        if body and kind != "application/x-www-form-urlencoded":
            raise UnsupportedMedia(f"unsupported Content-Type {kind[:100]!r}; send a form")
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=1_000))

    @property
    def root(self) -> str:
        """The path below which the host is mounted, usually empty."""
        return self.exchange.scope.get("root_path") or ""

    @property
    def base_url(self) -> str:
        """The address of the host as the browser sees it."""
        scheme = self.exchange.header(b"x-forwarded-proto") or self.exchange.scope.get("scheme", "http")
        return f"{'https' if scheme == 'https' else 'http'}://{self.exchange.header(b'host') or ''}{self.root}"

    @property
    def here(self) -> str:
        """The address of the page on this host, without the secret of a link."""
        query = self.exchange.scope["query_string"].decode("latin-1")
        return self.exchange.path + (f"?{query}" if query and "token" not in self.query else "")

    def _layout(self) -> dict[str, Any]:
        principal = self.principal
        screens = [one for one in SCREENS if one.path and principal is not None and principal.has_role(one.role)]
        if screens and not self.host.cluster.is_used:
            screens = [one for one in screens if not one.needs_cluster]
        return {
            "here": self.here,
            "language": self.language,
            "languages": LANGUAGES,
            "principal": principal,
            "role": principal.role if principal is not None else "",
            "can_run": principal is not None and principal.has_role("run"),
            "is_admin": principal is not None and principal.has_role("admin"),
            "root": self.root,
            "screen": self.screen,
            "screens": screens,
            "session": self.session,
            "static": f"{self.root}{_STATIC}/{_static_version()}",
            "theme": self.theme,
            "themes": THEMES,
            "version": __version__,
        }


PageHandler = Callable[[PageRequest], Awaitable[HttpResponse | None]]


def build_page(
    exchange: HttpExchange,
    body: str | bytes,
    *,
    status: int = 200,
    kind: str = "text/html; charset=utf-8",
    headers: Iterable[tuple[str, str]] = (),
) -> HttpResponse:
    """A response with the security headers of the console; `headers` replace them. Compressed where that helps."""
    data = body.encode("utf-8", "replace") if isinstance(body, str) else body
    given = list(headers)
    replaced = {name: value for name, value in given if name in SECURITY_HEADERS}
    found: dict[str, str] = {"content-type": kind, **SECURITY_HEADERS, **replaced}
    is_text = kind.startswith("text/")
    # A form's answer may contain a new key, whose length must not be seen through compression.
    if is_text and exchange.method == "GET" and len(data) >= _MIN_COMPRESSED and _accepts_gzip(exchange):
        data = gzip.compress(data, 5, mtime=0)
        found["content-encoding"] = "gzip"
    found["vary"] = "accept-encoding, accept-language, cookie, hx-request"
    found["content-length"] = str(len(data))
    more = [(name, value) for name, value in given if name not in replaced]
    shown = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in (*found.items(), *more)]
    return HttpResponse(status, [*shown, *http.trace_headers(exchange.trace)], data)


def _accepts_gzip(exchange: HttpExchange) -> bool:
    return "gzip" in (exchange.header(b"accept-encoding") or "")


async def handle_console(exchange: HttpExchange, parts: HostParts | None) -> HttpResponse | None:
    """Respond to a request for the console with a page, also if something is wrong."""
    path = exchange.path
    if path.startswith(f"{_STATIC}/"):
        return _serve_static(exchange, path.removeprefix(f"{_STATIC}/"))
    request = _read_request(exchange, parts)
    try:
        return await _dispatch(request)
    except HttpRefusal as refused:
        return show_error(request, refused.failure)
    except SkillError as error:
        return show_error(request, Failure.from_error(error))
    except ClientDisconnect:
        return None


async def _dispatch(request: PageRequest) -> HttpResponse | None:
    exchange, method = request.exchange, "GET" if request.exchange.method == "HEAD" else request.exchange.method
    if exchange.hostile is not None:
        raise exchange.hostile
    if request.parts is None:
        raise HttpRefusal(http.host_starting())
    if method != "GET":
        check_same_origin(exchange)
    if method == "GET" and exchange.path == "/" and "token" in request.query:
        return await _open_with_link(request)
    page, request.params = find_handler(exchange, exchange.path, _find_routes())
    request.screen = page.screen
    if page.role:
        await _authenticate(request)
        if request.principal is None:
            here = request.here if method == "GET" else "/"
            return request.redirect(f"/console/login?{urlencode({'next': here})}")
        request.principal.require_role(page.role)
    return await page.handler(request)


async def _authenticate(request: PageRequest) -> None:
    """Set the caller and the session: by the cookie, or by a key in the `Authorization` header."""
    exchange = request.exchange
    if b"authorization" in exchange.headers:
        request.principal = request.host.authenticator.authenticate(exchange)
        return
    sessions = request.console.sessions
    found = sessions.find(exchange)
    if found is not None:
        request.session, request.principal, used = found
        if time.time() - used > USED_INTERVAL:
            await sessions.touch(request.session)


@cache
def _find_routes() -> tuple[tuple[str, re.Pattern[str], ConsolePage], ...]:
    pages = list(PAGES)
    for screen in SCREENS:
        # Plain tuples: modules that also serve the API do not import this one.
        listed = importlib.import_module(f"{_PACKAGE}.{screen.module}").PAGES
        pages += [ConsolePage(*fields)._replace(screen=screen.module) for fields in listed]
    return tuple((page.method, compile_path(page.path)[0], page) for page in pages)


def _read_request(exchange: HttpExchange, parts: HostParts | None) -> PageRequest:
    theme = read_cookie(exchange, _THEME_COOKIE)
    return PageRequest(
        exchange,
        parts,
        None,
        dict(parse_qsl(exchange.scope["query_string"].decode("latin-1"), keep_blank_values=True)),
        {},
        choose_language(read_cookie(exchange, _LANGUAGE_COOKIE), exchange.header(b"accept-language") or ""),
        theme if theme in THEMES else "auto",
    )


_ACCEPTED = re.compile(r"\s*([A-Za-z]+)[A-Za-z0-9-]*\s*(?:;\s*(?:q=)?(\d+(?:\.\d*)?)\s*)?")


def choose_language(chosen: str, accepted: str) -> str:
    """The language of a page: the chosen one, else the first of `Accept-Language` that there is, else English."""
    if chosen in LANGUAGES:
        return chosen
    parts = map(_ACCEPTED.fullmatch, accepted[:500].split(","))
    for part in sorted(filter(None, parts), key=lambda part: -float(part[2] or 1)):
        if part[1].lower() in LANGUAGES:
            return part[1].lower()
    return "en"


def show_error(request: PageRequest, failure: Failure) -> HttpResponse:
    """A page that says what is wrong; as a part of a page it goes where notices are shown."""
    context = {"code": failure.code, "message": failure.message, "trace_id": request.exchange.trace.id}
    status = failure.code if 400 <= failure.code <= 599 else 500
    headers: list[tuple[str, str]] = []
    if request.is_partial:
        headers = [("hx-retarget", "#notice"), ("hx-reswap", "innerHTML")]
    if failure.retry_after is not None:
        headers.append(("retry-after", str(max(round(failure.retry_after), 1))))
    return request.render("error.html", context, block="notice", status=status, headers=headers)


async def _open_with_link(request: PageRequest) -> HttpResponse:
    """Exchange the secret of a link for a cookie, and go to the address without it."""
    exchange = request.exchange
    token = None
    if request.host.authenticator.is_local(exchange):
        token = await request.console.sessions.open_with_link(request.query["token"], exchange)
    if token is None:
        await _authenticate(request)
        if request.principal is not None:
            return request.redirect("/")
        return request.render("login.html", {"next": "/", "reason": "link"}, status=401)
    return request.redirect("/", headers=[_session_cookie(exchange, token)])


def _session_cookie(exchange: HttpExchange, token: str, seconds: float = SESSION_SECONDS) -> tuple[str, str]:
    return "set-cookie", build_cookie(exchange, cookie_name(exchange), token, seconds=seconds).decode("latin-1")


async def show_login(request: PageRequest) -> HttpResponse:
    return request.render("login.html", {"next": local_address(request.query.get("next", "/")), "reason": ""})


async def log_in(request: PageRequest) -> HttpResponse:
    """Exchange a key, in the body of the request, for a cookie."""
    fields = await request.form()
    next_ = local_address(fields.get("next", "/"))
    try:
        token = await request.console.sessions.open_with_key(fields.get("key", ""), request.exchange)
    except SkillError:
        return request.render("login.html", {"next": next_, "reason": "key"}, status=401)
    return request.redirect(next_, headers=[_session_cookie(request.exchange, token)])


async def log_out(request: PageRequest) -> HttpResponse:
    if request.session is not None:
        await request.console.sessions.end(request.session)
    return request.redirect("/console/login", headers=[_session_cookie(request.exchange, "", 0)])


async def set_preferences(request: PageRequest) -> HttpResponse:
    """Store language and theme in cookies."""
    fields = await request.form()
    headers: list[tuple[str, str]] = []
    for cookie, known in ((_LANGUAGE_COOKIE, LANGUAGES), (_THEME_COOKIE, THEMES)):
        value = fields.get(cookie.removeprefix("openskills_"), "")
        if value in known:
            set_ = build_cookie(request.exchange, cookie, value, seconds=_PREFERENCE_SECONDS, secret=False)
            headers.append(("set-cookie", set_.decode("latin-1")))
    return request.redirect(local_address(fields.get("next", "/")), headers=headers)


def local_address(address: str) -> str:
    """An address of this host; anything else becomes `/`."""
    is_local = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if is_local and address.isascii() else "/"


PAGES = (
    ConsolePage("GET", "/console/login", show_login, ""),
    ConsolePage("POST", "/console/login", log_in, ""),
    ConsolePage("POST", "/console/logout", log_out, ROLES[0]),
    ConsolePage("POST", "/console/preferences", set_preferences, ""),
)


# Static files ---------------------------------------------------------------------------------------------------------


class StaticFile(NamedTuple):
    """A file of the folder `static`, also compressed."""

    kind: str
    data: bytes
    compressed: bytes


@cache
def _read_static() -> Mapping[str, StaticFile]:
    found: dict[str, StaticFile] = {}
    for path in _FOLDER.glob("static/**/*.*"):
        data, kind = path.read_bytes(), guess_type(path.name)[0] or "text/plain"
        kind = f"{kind}; charset=utf-8" if kind.startswith(("text/", "image/svg")) else kind
        name = path.relative_to(_FOLDER / "static").as_posix()
        found[name] = StaticFile(kind, data, gzip.compress(data, 9, mtime=0))
    return found


@cache
def _static_version() -> str:
    """Part of the addresses of static files, so that browsers may keep them forever."""
    digest = hashlib.sha256()
    for name, file in sorted(_read_static().items()):
        digest.update(name.encode() + b"\0" + file.data)
    return digest.hexdigest()[:12]


def _serve_static(exchange: HttpExchange, path: str) -> HttpResponse:
    version, _, name = path.partition("/")
    file = _read_static().get(name)
    if file is None or exchange.method not in ("GET", "HEAD"):
        return build_page(exchange, "not found\n", status=404, kind="text/plain; charset=utf-8")
    # A page of an older version gets the file, but must not keep it under its address.
    is_current = version == _static_version()
    headers = {
        "content-type": file.kind,
        "cache-control": "public, max-age=31536000, immutable" if is_current else "no-cache",
        "x-content-type-options": "nosniff",
        "cross-origin-resource-policy": "same-origin",
        "vary": "accept-encoding",
    }
    data = file.data
    if _accepts_gzip(exchange) and len(file.compressed) < len(data):
        data, headers["content-encoding"] = file.compressed, "gzip"
    headers["content-length"] = str(len(data))
    return HttpResponse(200, [(name.encode(), value.encode()) for name, value in headers.items()], data)


# Languages and templates ----------------------------------------------------------------------------------------------


@cache
def load_messages(language: str) -> Mapping[str, str]:
    """The messages of a language by their English text, of all its files."""
    found: dict[str, str] = {}
    for file in _FOLDER.glob(f"locale/{language}/*.json"):
        found.update(json.loads(file.read_bytes()))
    return found


def translate(language: str, message: str) -> str:
    """A message in a language; in English if it has no translation."""
    return load_messages(language).get(message, message)


@cache
def _get_environment(language: str) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(_PACKAGE, "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )

    def say(message: str, **values: object) -> Markup:
        return Markup(escape(translate(language, message))).format(**values)  # noqa: S704 - escaped, as its values are

    def say_number(one: str, many: str, count: int, **values: object) -> Markup:
        return say(one if count == 1 else many, n=f"{count:,}", **values)

    def mark_matches(parts: Iterable[tuple[str, bool]]) -> Markup:
        mark = Markup("<mark>{}</mark>")
        shown = (mark.format(to_visible(text)) if is_match else escape(to_visible(text)) for text, is_match in parts)
        return Markup("").join(shown)

    # Both are typed as what the library itself puts there.
    names, filters = cast("dict[str, Any]", environment.globals), cast("dict[str, Any]", environment.filters)
    names.update(_=say, _n=say_number, mark_matches=mark_matches, ago=partial(describe_age, language))
    filters.update(_FILTERS)
    names["ui"] = environment.get_template("macros.html").module
    return environment


_INVISIBLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def to_visible(text: object) -> str:
    """Text without characters that hide or reorder other text: they are written as escapes, such as `\\u202e`.

    Line feeds and tabs stay.
    """
    return _INVISIBLE.sub(lambda match: ascii(match[0])[1:-1], str(text))


def format_size(number: float) -> str:
    """A size in bytes as `512 B`, `1.5 KB` or `2.0 GB`, in powers of 1,024."""
    if number < 1024:
        return f"{number:.0f} B"
    power = 1 + (number >= 1024**2) + (number >= 1024**3)
    number /= 1024**power
    return f"{number:.1f} {'KMG'[power - 1]}B" if number < 100 else f"{number:,.0f} {'KMG'[power - 1]}B"


def format_duration(seconds: float) -> str:
    """A duration as `12 ms`, `1.2 s`, `3 min` or `2 h`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.1f} ms"
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


_AGES = ((86400, "{n} d ago"), (3600, "{n} h ago"), (60, "{n} min ago"), (1, "{n} s ago"))


def describe_age(language: str, at: float) -> Markup:
    """How long ago a time in seconds since 1970 was, as an element `time` with the exact time."""
    passed = max(time.time() - at, 0.0)
    text = translate(language, "now")
    for unit, message in _AGES:
        if passed >= unit:
            text = translate(language, message).format(n=f"{passed / unit:.0f}")
            break
    exact = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(exact, exact.replace("+00:00", " UTC"), text)


def format_line(text: object) -> str:
    """Text on one line, without characters that hide or reorder other text."""
    return to_visible(" ".join(str(text).split()))


def format_moment(at: float) -> str:
    """A time in seconds since 1970 as `2026-01-31T12:00:00Z`."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def quote_segment(text: object) -> str:
    """Text as a segment of a path."""
    return quote(str(text), safe="")


_FILTERS: Mapping[str, Callable[..., object]] = {
    "number": "{:,}".format,
    "size": format_size,
    "printable": to_visible,
    "line": format_line,
    "segment": quote_segment,
    "duration": format_duration,
    "moment": format_moment,
    "tokens": estimate_tokens,
}


MAX_CHARACTERS = 100_000
"""How much of a text is rendered; the rest is left out, with a note."""


def render_markdown(text: str, link: Callable[[str], str] | None = None) -> Markup:
    """HTML of a text that may be hostile. Such a text takes seconds, so this is called in a thread.

    `link` gives the address of a relative link, such as `references/forms.md`; without it these are shown as text.
    Headings begin at the second level, because the page has the first.
    """
    cut = len(text) > MAX_CHARACTERS
    html = _get_parser().render(to_visible(text[:MAX_CHARACTERS]), {"link": link})
    return Markup(html) + ("…" if cut else "")  # noqa: S704 - the parser escapes everything


def is_safe_link(url: str) -> bool:
    """Whether a link leads to the web or to a file beside the text: no `javascript:`, `data:`, `file:` and the like."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if parts.scheme in ("http", "https"):
        return bool(parts.netloc)
    return not parts.scheme and not parts.netloc and not url.startswith(("//", "\\")) and ":" not in url.split("/")[0]


@cache
def _get_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False})
    parser.validateLink = is_safe_link
    parser.enable(["table", "strikethrough"])
    parser.core.ruler.push("console", _adapt_tokens)
    parser.add_render_rule("table_open", lambda *_: '<div class="table" tabindex="0"><table>\n')
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return parser


def _adapt_tokens(state: StateCore) -> None:
    """Fit the headings of a text into the page, and replace its links and images by those that are allowed."""
    level = 1
    for token in state.tokens:
        if token.type == "heading_open":
            # Never more than one level below the previous heading, so that the outline of the page has no gaps.
            level = min(int(token.tag[1]) + 1, level + 1, 6)
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{level}"
        tag = "a"
        for child in token.children or ():
            if child.type == "link_open":
                tag, child.attrs = _build_link(str(child.attrs.get("href", "")), state.env["link"])
            if child.type in ("link_open", "link_close"):
                child.tag = tag
            elif child.type == "image":
                # Not loaded: an image from elsewhere would tell its owner who reads the page.
                shown = escape(child.content or str(child.attrs.get("src", "")))
                child.type, child.content = "html_inline", f'<span class="image">{shown}</span>'


def _build_link(address: str, link: Callable[[str], str] | None) -> tuple[str, dict[str, str | int | float]]:
    """The tag and attributes of a link; one that leads nowhere is shown as text."""
    if address.startswith(("http://", "https://")):
        return "a", {"href": address, "rel": "noopener noreferrer nofollow", "target": "_blank"}
    if link is not None and address and not address.startswith("#"):
        return "a", {"href": link(address)}
    return "span", {}
