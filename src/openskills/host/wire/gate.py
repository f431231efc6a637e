"""Who may come in: with a key, or, where that is allowed, without one from this machine only."""

from ipaddress import ip_address

from openskills.host.books.keys import ANONYMOUS, KeyRing, Principal
from openskills.host.wire import faults
from openskills.host.wire.exchange import Exchange
from openskills.host.wire.faults import Refused


class Gate:
    """The keys, and whether one is needed. `mode` is `on`, `off`, or `auto`: needed unless we are called on loopback.

    Without keys a web page could have its own name point to this machine and call us through somebody's browser. So
    what comes in on loopback without a key must be meant for loopback.
    """

    def __init__(self, required: KeyRing, optional: KeyRing, mode: str) -> None:
        self._required = required
        self._optional = optional
        self._mode = mode
        self._known: dict[str, bool] = {}

    def principal(self, exchange: Exchange) -> Principal:
        """Who sends a request. Raises `Unauthorized`, or `Refused` for one that is not meant for us."""
        if self.needs_key(exchange):
            return self._required.check(exchange.header(b"authorization"))
        if self._is_local(exchange) and not self._is_loopback(exchange.header(b"host") or ""):
            raise Refused(faults.misdirected(exchange.header(b"host") or ""))
        if b"authorization" not in exchange.headers:
            return ANONYMOUS
        return self._optional.check(exchange.header(b"authorization"))

    def needs_key(self, exchange: Exchange) -> bool:
        """Whether a request is let in with a key only."""
        return self._mode == "on" or (self._mode == "auto" and not self._is_local(exchange))

    def _is_local(self, exchange: Exchange) -> bool:
        server = exchange.scope.get("server")
        return server is not None and self._is_loopback(server[0])

    def _is_loopback(self, name: str) -> bool:
        known = self._known.get(name)
        if known is None:
            known = is_loopback(_name(name))
            # The same few names come all the time; what is invented is not kept.
            if len(self._known) < 100:
                self._known[name] = known
        return known


def is_loopback(name: str) -> bool:
    """Whether a name or an address is that of this machine and of no other."""
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name.lower().rstrip(".") == "localhost" or name.lower().rstrip(".").endswith(".localhost")


def _name(host: str) -> str:
    """The name in a `Host` header, without the port and the brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host
