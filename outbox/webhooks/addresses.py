"""What a webhook may call (A6): an URL as it is saved, and an address as it is connected to. Pure.

Whoever sets a webhook makes us send requests from inside our own network, so nothing there may be
reached by it. Two judgements, both needed:

* ``parse`` judges what was written. An URL has one spelling here: numbers for hosts in any other
  form than four decimals, and whatever parsers read in different ways, are refused, not guessed at.
* ``judge`` judges an address. A name means what its owner's DNS says at that moment, so whoever
  connects asks for the addresses once, judges every one of them, and connects to one of those.

An operator may allow networks, for receivers within. The services that give a cloud machine its
credentials stay closed even so, as does what is no single machine's address.
"""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import idna

URL_CHARACTERS_MAX = 2_000
HOST_CHARACTERS_MAX = 253
PORT_UNPRIVILEGED_MIN = 1_024

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Refused(ValueError):
    """This may not be called; the message says why, to whoever wrote it."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the operator of this installation allows beyond public addresses by https."""

    networks: tuple[Network, ...] = ()
    plain_http: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed URL: whom to call, and with which path.

    ``host`` is a name in ASCII without a trailing dot, or an address without brackets.
    """

    scheme: str
    host: str
    port: int
    path: str  # with the query

    @property
    def address(self) -> Address | None:
        """Where the host is an address itself."""
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    @property
    def authority(self) -> str:
        """As the Host header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The one spelling of it."""
        return f"{self.scheme}://{self.authority}{self.path}"


DEFAULT_PORTS = {"https": 443, "http": 80}

# The ports that browsers never call either (the Fetch standard), of those over 1023: SIP, NFS, X11,
# IRC and others whose servers read lines and might obey one that a body has in it.
_FORBIDDEN_PORTS = frozenset(
    (1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6679, 6697, 10080)
) | frozenset(range(6665, 6670))

# Names that mean something only within a network or on one machine (RFC 6761, 6762, 8375, 9476 and
# custom): their resolution is nobody's business from outside.
_INNER_SUFFIXES = frozenset(
    ("localhost", "local", "localdomain", "internal", "intranet", "private", "corp", "home")
) | frozenset(("lan", "arpa", "onion", "alt", "invalid"))

_URL_CHARACTERS = re.compile(
    r"[!-\[\]^_a-z|~\u0080-\U0010ffff]+\Z"
)  # printable, no \ ` { } or space
_PATH = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*\Z")
_BRACKETED = re.compile(r"\[[^\[\]]*\](?::[0-9]*)?\Z")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_NUMBER = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")

# Never, whatever is allowed: what answers there gives away a machine's credentials, or is not one
# machine. The first is every large cloud's, the others are the lesser known of single ones.
_METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",
        "169.254.170.2",  # credentials of AWS containers
        "169.254.170.23",  # of AWS pods
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",  # Google, in IPv6 alone
        "100.100.100.200",  # Alibaba
        "192.0.0.192",  # Oracle
        "168.63.129.16",  # Azure's platform, on an address that looks public
    )
)
_NEVER: tuple[tuple[Network, str], ...] = (
    (ipaddress.ip_network("0.0.0.0/8"), "an unspecified address"),
    (ipaddress.ip_network("::/128"), "an unspecified address"),
    (ipaddress.ip_network("224.0.0.0/4"), "a multicast address"),
    (ipaddress.ip_network("ff00::/8"), "a multicast address"),
    (ipaddress.ip_network("255.255.255.255/32"), "the broadcast address"),
)

# IANA's registries of special-purpose addresses; an operator may allow parts of these.
_INNER: tuple[tuple[Network, str], ...] = (
    (ipaddress.ip_network("127.0.0.0/8"), "a loopback address"),
    (ipaddress.ip_network("::1/128"), "a loopback address"),
    (ipaddress.ip_network("10.0.0.0/8"), "a private address"),
    (ipaddress.ip_network("172.16.0.0/12"), "a private address"),
    (ipaddress.ip_network("192.168.0.0/16"), "a private address"),
    (ipaddress.ip_network("fc00::/7"), "a private address"),
    (ipaddress.ip_network("fec0::/10"), "a site-local address"),
    (ipaddress.ip_network("169.254.0.0/16"), "a link-local address"),
    (ipaddress.ip_network("fe80::/10"), "a link-local address"),
    (ipaddress.ip_network("100.64.0.0/10"), "a carrier's inner address"),
    (ipaddress.ip_network("192.0.0.0/24"), "a reserved address"),
    (ipaddress.ip_network("192.0.2.0/24"), "an address of examples"),
    (ipaddress.ip_network("198.51.100.0/24"), "an address of examples"),
    (ipaddress.ip_network("203.0.113.0/24"), "an address of examples"),
    (ipaddress.ip_network("2001:db8::/32"), "an address of examples"),
    (ipaddress.ip_network("3fff::/20"), "an address of examples"),
    (ipaddress.ip_network("192.88.99.0/24"), "an address of a tunnel"),
    (ipaddress.ip_network("2002::/16"), "an address of a tunnel"),  # 6to4: has an IPv4 in it
    (ipaddress.ip_network("2001::/32"), "an address of a tunnel"),  # Teredo: likewise
    (ipaddress.ip_network("198.18.0.0/15"), "an address of benchmarks"),
    (ipaddress.ip_network("240.0.0.0/4"), "a reserved address"),
    (ipaddress.ip_network("2001::/23"), "a reserved address"),
    (ipaddress.ip_network("64:ff9b:1::/48"), "a local translator's address"),
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_GLOBAL_IPV6 = ipaddress.IPv6Network("2000::/3")


def parse(url: str, *, rules: Rules) -> Target:
    """The target that an URL names, in its one spelling.

    A name is not looked up here: ask for its addresses, and ``judge`` them.

    Raises:
        Refused: no webhook may call this.
    """
    if len(url) > URL_CHARACTERS_MAX:
        raise Refused(f"at most {URL_CHARACTERS_MAX} characters")
    # Before anybody splits it: parsers drop, trim or turn these, each in another way.
    if not _URL_CHARACTERS.match(url):
        raise Refused(r"no spaces, control characters, backslashes or braces; %-encode them")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Refused(f"not an URL: {error}") from None
    if parts.scheme != "https" and not (parts.scheme == "http" and rules.plain_http):
        raise Refused("must be like https://hooks.example.com/path")
    if "@" in parts.netloc:
        raise Refused("no user or password; check the signature instead")
    if "#" in url:
        raise Refused("no fragment: it never reaches the receiver")
    bracketed = "[" in parts.netloc or "]" in parts.netloc
    if bracketed and not _BRACKETED.match(parts.netloc):
        raise Refused("brackets are for an IPv6 address alone")
    target = Target(
        scheme=parts.scheme,
        host=_host(parts.hostname or "", bracketed=bracketed, rules=rules),
        port=_port(DEFAULT_PORTS[parts.scheme] if port is None else port),
        path=_path(parts.path, parts.query),
    )
    if (address := target.address) is not None:
        judge(address, rules=rules)
    return target


def judge(address: Address, *, rules: Rules) -> None:
    """Let an address pass if it may be connected to.

    Raises:
        Refused: it may not.
    """
    found = _unwrapped(address)
    if found in _METADATA:
        raise Refused(f"{address} is a cloud's metadata service")
    _refuse_within(found, _NEVER)
    if any(found in network for network in rules.networks):
        return
    if found in _NAT64:
        # A public host, seen from a network that has only IPv6. What the operator allows here
        # says nothing about what lies at the same address behind the translator.
        judge(ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF), rules=Rules())
        return
    _refuse_within(found, _INNER)
    if found.version == 6 and found not in _GLOBAL_IPV6:
        raise Refused(f"{address} is a reserved address")


def all_allowed(addresses: Sequence[Address], *, rules: Rules) -> bool:
    """Whether every address of a name may be connected to.

    One that may not makes the name suspect: whoever gave it chooses which one comes first. Which
    address that is stays untold: names of an inner network would be read out by it.
    """
    try:
        for address in addresses:
            judge(address, rules=rules)
    except Refused:
        return False
    return bool(addresses)


def _unwrapped(address: Address) -> Address:
    """Without the IPv6 around an IPv4: the kernel connects to the one within."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise Refused(f"{address} is of one network interface")
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
    return address


def _refuse_within(address: Address, kinds: Sequence[tuple[Network, str]]) -> None:
    for network, what in kinds:
        if address in network:
            raise Refused(f"{address} is {what}")


def _host(written: str, *, bracketed: bool, rules: Rules) -> str:
    if bracketed:
        try:
            return str(ipaddress.IPv6Address(written))
        except ValueError:
            raise Refused(f"[{written}] is no IPv6 address") from None
    if "%" in written:
        raise Refused("no %-encoded host")
    host = _in_ascii(written).removesuffix(".")
    labels = host.split(".")
    if not all(_LABEL.match(label) for label in labels) or len(host) > HOST_CHARACTERS_MAX:
        raise Refused("has no host that a name server knows" if host else "has no host")
    if _NUMBER.match(labels[-1]):
        return _number(host)
    # With receivers within, what the name resolves to decides: their names are short.
    if not rules.networks and (len(labels) == 1 or labels[-1] in _INNER_SUFFIXES):
        raise Refused(f"{host} is a name of an inner network")
    return host


def _in_ascii(host: str) -> str:
    """As DNS has it; full-width digits and dots become what they stand for, to be judged."""
    if host.isascii():
        return host.lower()
    try:
        return idna.encode(host, uts46=True, std3_rules=True).decode()
    except idna.IDNAError:
        raise Refused(f"{host} is no international name") from None


def _number(host: str) -> str:
    """A host that a resolver takes for an IPv4 address: 127.1, 0177.0.0.1 and 0x7f000001 too."""
    try:
        return str(ipaddress.IPv4Address(host))
    except ValueError:
        raise Refused(f"write {host} as four decimal numbers, like 198.51.100.7") from None


def _port(port: int) -> int:
    if port in DEFAULT_PORTS.values() or (
        port >= PORT_UNPRIVILEGED_MIN and port not in _FORBIDDEN_PORTS
    ):
        return port
    raise Refused(f"port {port} is not for HTTP: 443, 80, or one from {PORT_UNPRIVILEGED_MIN} on")


def _path(path: str, query: str) -> str:
    whole = (path or "/") + (f"?{query}" if query else "")
    if not _PATH.match(whole):
        raise Refused("the path has characters that must be %-encoded")
    return whole
