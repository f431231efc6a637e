"""Package indexes of this machine: where pip, uv and npm are configured to download packages from.

The variables and configuration files of the three programs are read on this side; a build gets the result as a few
variables and a certificate file, so that it needs neither the user's home nor network access beyond the indexes.
"""

import configparser
import netrc
import os
import re
import socket
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from openskills.arguments import check_arguments
from openskills.concurrency import run_in_thread
from openskills.errors import InvalidArgument
from openskills.executors.network.allowlist import parse_entry

PYPI = "https://pypi.org/simple"
NPM = "https://registry.npmjs.org/"
_FILE_HOSTS = {"pypi.org": ("files.pythonhosted.org",)}
"""Hosts of the files of an index, if they are not on the host of the index."""
_SCHEMES = ("http", "https", "file")
_NPM_TOKEN = re.compile(r"(//[^\s=]+):(_authToken|_auth|username|_password)\s*=\s*(.+)")


@check_arguments
@dataclass(frozen=True, slots=True)
class PackageIndex:
    """Where packages come from.

    `urls` are Python indexes, the first one with the lowest priority for uv and the default of pip; `file://` is
    supported. `find_links` are directories or pages with wheels. With `no_index`, only these are used. `certificates`
    is a file of certificate authorities. `hosts` may be reached in addition to those of the URLs. `best_match`: take
    the best version of all indexes, as pip does, instead of the first index that has the package, as uv does.
    """

    urls: tuple[str, ...] = field(default=(PYPI,), repr=False)
    find_links: tuple[str, ...] = field(default=(), repr=False)
    no_index: bool = False
    certificates: Path | None = None
    insecure_hosts: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    best_match: bool = False
    npm_registry: str = field(default=NPM, repr=False)
    npm_settings: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        """Raises `InvalidArgument` that names an invalid URL, without its credentials."""
        for url in (*self.urls, *(place for place in self.find_links if "://" in place), self.npm_registry):
            if not _is_url(url):
                raise InvalidArgument("index", f"{hide_credentials(url)!r} is not a URL; use http, https or file")
        for host in self.hosts:
            parse_entry(host)

    @property
    def has_credentials(self) -> bool:
        """Whether a URL of a Python index contains a user name, a password or a query."""
        parts = [urlsplit(url) for url in (*self.urls, *self.find_links)]
        return any(one.username is not None or one.query for one in parts)

    @property
    def mounts(self) -> tuple[str, ...]:
        """The existing local directories of indexes and wheels."""
        urls = [url for url in (*self.urls, *self.find_links) if url.startswith("file:")]
        places = [unquote(urlsplit(url).path).rstrip("/") for url in urls]
        # The pages of such an index usually link to files beside it.
        places = [os.path.dirname(place) if os.path.basename(place) == "simple" else place for place in places]
        places += [place for place in self.find_links if "://" not in place]
        return tuple(dict.fromkeys(os.path.realpath(place) for place in places if os.path.exists(place)))

    def find_hosts(self, *, npm: bool) -> tuple[str, ...]:
        """The hosts, with ports, of the Python indexes or of the npm registry."""
        urls = (self.npm_registry,) if npm else () if self.no_index else self.urls
        urls += () if npm else tuple(place for place in self.find_links if "://" in place)
        found = [*self.hosts]
        for url in urls:
            parts = urlsplit(url)
            if parts.hostname and parts.scheme != "file":
                host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
                found.append(f"{host}:{parts.port}" if parts.port else host)
                found += _FILE_HOSTS.get(host, ())
        return tuple(dict.fromkeys(found))

    async def resolve_network(self, *, npm: bool) -> tuple[str, ...]:
        """The allow-list of a build. The owner of the machine chose the hosts, so they may have any address."""
        found: list[str] = []
        for host in self.find_hosts(npm=npm):
            entry = parse_entry(host)
            if not isinstance(entry.host, str) or entry.has_subdomains or entry.networks:
                found.append(host)
                continue
            addresses = await run_in_thread(lambda name=entry.host: _look_up(name))
            found += [host, *(f"{host}={address}" for address in addresses)]
        return tuple(found)

    def build_variables(self, *, certificates: str | None, npm: bool = False) -> dict[str, str]:
        """The variables for pip and uv, or for npm; values may contain credentials. `certificates` is a path."""
        default, *extra = self.urls or (PYPI,)
        links = [place if "://" in place else os.path.realpath(place) for place in self.find_links]
        names = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
        trusted = dict.fromkeys(names, certificates) if certificates is not None else {}
        if npm:
            return {"NPM_CONFIG_REGISTRY": self.npm_registry, **trusted}
        found = {
            "PIP_INDEX_URL": default,
            "PIP_EXTRA_INDEX_URL": " ".join(extra),
            "PIP_FIND_LINKS": " ".join(links),
            "PIP_TRUSTED_HOST": " ".join(self.insecure_hosts),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_INPUT": "1",
            "UV_DEFAULT_INDEX": default,
            "UV_INDEX": " ".join(extra),
            "UV_FIND_LINKS": ",".join(links),
            "UV_INSECURE_HOST": " ".join(self.insecure_hosts),
            "UV_INDEX_STRATEGY": "unsafe-best-match" if self.best_match else "",
            "UV_NO_CONFIG": "1",
        }
        return {name: value for name, value in found.items() if value} | trusted


def read_package_index(environment: Mapping[str, str], home: Path, hosts: Sequence[str] = ()) -> PackageIndex:
    """Read the settings of pip, uv and npm. Settings of uv take precedence over those of pip, as in uv itself.

    Raises `InvalidArgument` that names the file for one that cannot be parsed.
    """
    pip, uv = _read_pip_settings(environment, home), _read_uv_settings(environment, home)
    urls = uv.urls or pip.urls
    registry, npm_settings = _read_npm_settings(environment, home)
    certificates = next((environment[name] for name in ("SSL_CERT_FILE", "PIP_CERT") if environment.get(name)), None)
    certificates = certificates or pip.certificates
    logins = _read_netrc(environment, home)
    return PackageIndex(
        urls=tuple(_add_netrc_login(url, logins) for url in urls) or (PYPI,),
        find_links=tuple(dict.fromkeys((*uv.find_links, *pip.find_links))),
        no_index=uv.no_index or pip.no_index,
        certificates=Path(certificates) if certificates and os.path.isfile(certificates) else None,
        insecure_hosts=tuple(dict.fromkeys((*uv.insecure_hosts, *pip.insecure_hosts))),
        hosts=tuple(hosts),
        best_match=not uv.urls and len(pip.urls) > 1,
        npm_registry=registry,
        npm_settings=npm_settings,
    )


def hide_credentials(url: str) -> str:
    """The URL without user name, password and query."""
    scheme, separator, rest = url.partition("://") if "://" in url else ("", "", url)
    return f"{scheme}{separator}{rest.rpartition('@')[2]}".partition("?")[0]


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in _SCHEMES and parts.port != 0
    except ValueError:
        return False
    return valid


@dataclass(frozen=True, slots=True)
class _IndexSettings:
    """What one program has configured."""

    urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False
    certificates: str | None = None
    insecure_hosts: tuple[str, ...] = ()


def _read_pip_settings(environment: Mapping[str, str], home: Path) -> _IndexSettings:
    settings: dict[str, str] = {}
    for path in _find_pip_files(environment, home):
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(path.read_text("utf-8"), str(path))
        except (configparser.Error, UnicodeDecodeError) as error:
            # Without the text of the line, which may contain a password.
            line = getattr(error, "lineno", None)
            where = f" (line {line})" if line else ""
            raise InvalidArgument(str(path), f"not a valid configuration of pip{where}") from None
        for section in ("global", "install"):
            if parser.has_section(section):
                settings |= {key.replace("_", "-"): value for key, value in parser.items(section)}
    for name, value in environment.items():
        if name.startswith("PIP_") and value:
            settings[name.removeprefix("PIP_").lower().replace("_", "-")] = value
    default = settings.get("index-url", PYPI).strip()
    extra = tuple(settings.get("extra-index-url", "").split())
    return _IndexSettings(
        (default, *extra) if extra or default != PYPI else (),
        tuple(settings.get("find-links", "").split()),
        settings.get("no-index", "").strip().lower() in ("1", "true", "yes", "on"),
        settings.get("cert", "").strip() or None,
        tuple(settings.get("trusted-host", "").split()),
    )


def _find_pip_files(environment: Mapping[str, str], home: Path) -> Iterator[Path]:
    """The existing configuration files of pip, the most important one last."""
    chosen = environment.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:
        return
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    places = [Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf"), home / ".pip/pip.conf", config / "pip/pip.conf"]
    places += [Path(sys.prefix, "pip.conf"), *([Path(chosen)] if chosen else [])]
    yield from (path for path in places if path.is_file() and os.access(path, os.R_OK))


def _read_uv_settings(environment: Mapping[str, str], home: Path) -> _IndexSettings:
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    chosen = environment.get("UV_CONFIG_FILE")
    table: dict[str, Any] = {}
    for path in [Path(chosen)] if chosen else [Path("/etc/uv/uv.toml"), config / "uv/uv.toml"]:
        if path.is_file() and not environment.get("UV_NO_CONFIG"):
            try:
                table |= tomllib.loads(path.read_text("utf-8"))
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                where = re.search(r"\(at line \d+.*\)", str(error))
                raise InvalidArgument(
                    str(path), f"not a valid configuration of uv {where[0] if where else ''}"
                ) from None
    pip: dict[str, Any] = {**table, **table.get("pip", {})}
    named = [cast("dict[str, Any]", one) for one in table.get("index", []) if isinstance(one, dict) and "url" in one]
    default = environment.get("UV_DEFAULT_INDEX") or environment.get("UV_INDEX_URL") or pip.get("index-url")
    default = default or next((one["url"] for one in named if one.get("default")), None)
    extra = [*(environment.get("UV_INDEX", "").split()), *environment.get("UV_EXTRA_INDEX_URL", "").split()]
    extra += [f"{one.get('name', '')}={one['url']}" for one in named if not one.get("default")]
    extra += pip.get("extra-index-url", [])
    urls = [_add_uv_credentials(url, environment) for url in ([default] if default or not extra else [PYPI]) if url]
    urls += [_add_uv_credentials(url, environment) for url in extra]
    links = [part for part in environment.get("UV_FIND_LINKS", "").split(",") if part] or pip.get("find-links", [])
    flag = environment.get("UV_NO_INDEX", "").lower()
    return _IndexSettings(
        tuple(urls),
        tuple(links),
        flag in ("1", "true", "yes", "on") or bool(pip.get("no-index")),
        None,
        tuple(environment.get("UV_INSECURE_HOST", "").split()) or tuple(table.get("allow-insecure-host", ())),
    )


def _add_uv_credentials(url: str, environment: Mapping[str, str]) -> str:
    """The URL of an index that may have a name (`NAME=URL`), whose credentials are in variables."""
    match = re.fullmatch(r"([A-Za-z0-9_.-]*)=(.+)", url)
    if match is None:
        return url
    name = re.sub(r"[^A-Z0-9]", "_", match[1].upper())
    user, password = (environment.get(f"UV_INDEX_{name}_{kind}") for kind in ("USERNAME", "PASSWORD"))
    return _add_login(match[2], user, password) if name and (user or password) else match[2]


def _add_login(url: str, user: str | None, password: str | None) -> str:
    parts = urlsplit(url)
    if parts.username is not None:
        return url
    login = quote(user or "", safe="") + (f":{quote(password, safe='')}" if password else "")
    return urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc}"))


def _read_netrc(environment: Mapping[str, str], home: Path) -> netrc.netrc | None:
    """The user's netrc file, which pip and uv read."""
    path = Path(environment.get("NETRC") or home / ".netrc")
    try:
        return netrc.netrc(path) if path.is_file() else None
    except (netrc.NetrcParseError, OSError, UnicodeDecodeError):
        # As in pip: a file that cannot be used has no logins.
        return None


def _add_netrc_login(url: str, logins: netrc.netrc | None) -> str:
    """The URL with the login of its host, unless it has one."""
    host = urlsplit(url).hostname
    found = logins.authenticators(host) if logins is not None and host else None
    return _add_login(url, found[0], found[2]) if found is not None else url


def _read_npm_settings(environment: Mapping[str, str], home: Path) -> tuple[str, tuple[str, ...]]:
    """The registry, and the lines with credentials for it."""
    variables = {name.lower(): value for name, value in environment.items() if value}
    chosen = variables.get("npm_config_userconfig")
    lines: list[str] = []
    for path in (Path("/etc/npmrc"), Path(chosen) if chosen else home / ".npmrc"):
        if path.is_file() and os.access(path, os.R_OK):
            lines += [line.strip() for line in path.read_text("utf-8", "replace").splitlines()]
    found = [match[1].strip() for line in lines if (match := re.fullmatch(r"registry\s*=\s*(\S+)", line))]
    registry = variables.get("npm_config_registry") or (found[-1] if found else NPM)
    host = urlsplit(registry).netloc
    return registry, tuple(line for line in lines if _NPM_TOKEN.fullmatch(line) and line.startswith(f"//{host}/"))


def _look_up(host: str) -> Iterable[str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        # The installer reports it with its own words.
        return ()
    return sorted({str(ip_address(str(one[4][0]).partition("%")[0])) for one in found})
