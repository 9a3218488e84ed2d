"""From which address a request comes, where proxies of ours stand in front.

A proxy writes who called it to the end of ``X-Forwarded-For``. So the list is read from its end,
and only as long as proxies that we trust have written it: what a client sends itself is never
reached.
"""

import ipaddress
from collections.abc import Sequence

from django.conf import settings
from django.http import HttpRequest

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: One household or office has a whole /64 of these: a limit on one address would limit nobody.
_IPV6_PREFIX = 64
HOPS_MAX = 20


def of_request(request: HttpRequest) -> str:
    """The client's address, as text; empty where it calls through a socket of this machine."""
    found = of_client(
        request.META.get("REMOTE_ADDR", ""),
        request.META.get("HTTP_X_FORWARDED_FOR", ""),
        trusted=settings.TRUSTED_PROXIES,
    )
    return "" if found is None else str(found)


def of_client(peer: str, forwarded: str, *, trusted: Sequence[Network]) -> Address | None:
    """The last address that no trusted proxy has; None where the peer has none."""
    found = _parsed(peer)
    named = forwarded.split(",")[-HOPS_MAX:] if forwarded else []
    while found is not None and named and any(found in network for network in trusted):
        before = _parsed(named.pop())
        if before is None:
            break  # a proxy that hides its client: the proxy is all we know
        found = before
    return found


def whole(address: str) -> str:
    """What one client surely has all of: an IPv4 address, or the /64 of an IPv6 one."""
    parsed = _parsed(address)
    if not isinstance(parsed, ipaddress.IPv6Address):
        return address
    return str(ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))


def _parsed(text: str) -> Address | None:
    """An address, of IPv4 where it is only dressed as IPv6 (``::ffff:192.0.2.1``)."""
    try:
        found = ipaddress.ip_address(text.strip().strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(found, "ipv4_mapped", None)
    return found if mapped is None else mapped
