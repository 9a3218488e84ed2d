"""What webhooks may call: no spelling of an inner address gets through (A6, case 31)."""
# ruff: noqa: RUF001  full-width digits are what is tested

import ipaddress
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.webhooks import addresses
from outbox.webhooks.addresses import Refused, Rules

pytestmark = [pytest.mark.rule("A6"), pytest.mark.case(31)]

# Plain http too, so that it is the host that is refused.
PUBLIC_ONLY = Rules(plain_http=True)
FULL_WIDTH = str.maketrans("0123456789abcdefx.", "０１２３４５６７８９ａｂｃｄｅｆｘ。")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1.",
        "2130706433",  # decimal
        "0177.0.0.1",  # octal
        "017700000001",
        "0x7f.1",  # hexadecimal, short
        "0x7f000001",
        "0x7F.0x0.0x0.0x1",
        "127.1",
        "127.0.1",
        "0",
        "0.0.0.0",
        "[::]",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:127.0.0.1]",
        "[::127.0.0.1]",  # IPv4-compatible, long deprecated
        "[64:ff9b::127.0.0.1]",  # through a translator
        "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]",  # 6to4
        "[2001:0:7f00:1::1]",  # Teredo
        "[fec0::1]",
        "[fe80::1]",
        "[fe80::1%25eth0]",
        "[fd00:ec2::254]",
        "169.254.169.254",
        "169.254.170.2",
        "168.63.129.16",
        "100.100.100.200",
        "100.64.0.1",
        "10.1.2.3",
        "172.31.255.255",
        "192.168.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "[ff02::1]",
        "240.0.0.1",
        "255.255.255.255",
        "１２７.０.０.１",  # full-width digits
        "127。0。0。1",  # ideographic full stops
        "①②⑦.⓪.⓪.①",
        "%31%32%37.0.0.1",
        "127.0.0.1%00.example.com",
        "localhost",
        "LOCALHOST.",
        "db.localhost",
        "printer.local",
        "metadata.google.internal",
        "db.internal",
        "router.home.arpa",
        "1.0.0.127.in-addr.arpa",
        "intranet",
        "a..example.com",
        ".example.com",
        "-a.example.com",
        "a" * 64 + ".example.com",
        ".".join(["abcdefgh"] * 29) + ".example.com",
    ],
)
def test_no_inner_host_is_taken_however_it_is_written(host: str) -> None:
    with pytest.raises(Refused):
        addresses.parse(f"http://{host}/hook", rules=PUBLIC_ONLY)
    with pytest.raises(Refused):
        addresses.parse(f"https://{host}:8443/hook", rules=Rules())


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example.com/x",
        "//hooks.example.com/x",
        "https:hooks.example.com",
        "https:///x",
        "ftp://hooks.example.com/",
        "file:///etc/passwd",
        "gopher://hooks.example.com:70/_x",
        "http://hooks.example.com/",  # not by https
        "https://user@hooks.example.com/",
        "https://hooks.example.com@127.0.0.1/",
        "https://:@hooks.example.com/",
        "https://hooks.example.com/#",
        "https://hooks.example.com/#@127.0.0.1",
        r"https://hooks.example.com\@127.0.0.1/",
        r"https:\\hooks.example.com/",
        "https://hooks.example.com/a b",
        " https://hooks.example.com/",
        "https://hooks.example.com/\n",
        "https://hooks.exa\tmple.com/",
        "https://hooks.example.com/\x00",
        "https://hooks.example.com/ü",
        "https://hooks.example.com/%zz",
        "https://hooks.example.com/[x]",
        "https://[::ffff:8.8.8.8]evil.example.com/",
        "https://evil.example.com[::1]/",
        "https://[v1.fe]/",
        "https://[2001:4860:4860::8888/",
        "https://hooks.example.com:0/",
        "https://hooks.example.com:22/",
        "https://hooks.example.com:25/",
        "https://hooks.example.com:6667/",
        "https://hooks.example.com:65536/",
        "https://hooks.example.com:-1/",
        "https://hooks.example.com:４４３/",
        "https://hooks.example.com/" + "a" * 2_000,
        "https://a℀b.example.com/",  # becomes a/c under normalisation
        "https://xn--\u200b.example.com/",
    ],
)
def test_an_url_that_parsers_read_differently_is_refused(url: str) -> None:
    with pytest.raises(Refused):
        addresses.parse(url, rules=Rules())


@pytest.mark.parametrize(
    ("written", "spelled"),
    [
        ("https://hooks.example.com", "https://hooks.example.com/"),
        ("HTTPS://Hooks.Example.COM.:443/a?b=c", "https://hooks.example.com/a?b=c"),
        ("https://hooks.example.com:8443/%C3%BC", "https://hooks.example.com:8443/%C3%BC"),
        ("https://münchen.example/", "https://xn--mnchen-3ya.example/"),
        ("https://8.8.8.8/", "https://8.8.8.8/"),
        ("https://８.8.8.8/", "https://8.8.8.8/"),
        ("https://[2001:4860:4860:0::8888]:8443/", "https://[2001:4860:4860::8888]:8443/"),
        ("https://[64:ff9b::8.8.8.8]/", "https://[64:ff9b::808:808]/"),
    ],
)
def test_a_public_url_has_one_spelling(written: str, spelled: str) -> None:
    target = addresses.parse(written, rules=Rules())
    assert target.url == spelled
    assert addresses.parse(spelled, rules=Rules()) == target


V4 = st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address)
INNER_NETWORKS = ("0.0.0.0/8", "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16")
INNER = st.one_of(
    *(
        st.integers(0, net.num_addresses - 1).map(net.__getitem__)
        for net in map(ipaddress.IPv4Network, INNER_NETWORKS)
    )
)


@st.composite
def _spelled(draw: st.DrawFn) -> tuple[ipaddress.IPv4Address, str]:
    """An inner address, and one of the ways in which inet_aton or a parser would read it."""
    address = draw(INNER)
    value = int(address)
    kept = draw(st.integers(1, 4))  # a.b.c.d, a.b.c, a.b or a: the last takes the rest
    heads = [value >> shift & 255 for shift in (24, 16, 8)][: kept - 1]
    last = value & (1 << 8 * (5 - kept)) - 1
    bases = draw(st.lists(st.sampled_from(["{}", "0{:o}", "0x{:x}", "0X{:X}"]), min_size=4))
    text = ".".join(base.format(part) for base, part in zip(bases, [*heads, last], strict=False))
    mapped = draw(st.sampled_from([None, "[::ffff:{}]", "[64:ff9b::{}]"]))
    if mapped is not None:
        return address, mapped.format(address)
    return address, text.translate(FULL_WIDTH) if draw(st.booleans()) else text


@given(_spelled(), st.booleans())
def test_every_spelling_of_an_inner_address_is_refused(
    spelled: tuple[ipaddress.IPv4Address, str], dot: bool
) -> None:
    _, host = spelled
    with pytest.raises(Refused):
        addresses.parse(f"http://{host}{'.' if dot and host[0] != '[' else ''}/", rules=PUBLIC_ONLY)


@given(st.one_of(V4, st.integers(0, 2**128 - 1).map(ipaddress.IPv6Address), INNER))
def test_what_passes_is_public_to_the_standard_library_too(address: addresses.Address) -> None:
    if addresses.all_allowed([address], rules=Rules()):
        assert address.is_global
        assert not address.is_multicast


@given(INNER)
def test_an_inner_address_in_ipv6_is_judged_as_itself(address: ipaddress.IPv4Address) -> None:
    for around in ("::ffff:0:0", "64:ff9b::", "::", "64:ff9b:1::"):
        within = ipaddress.IPv6Address(int(ipaddress.IPv6Address(around)) + int(address))
        assert not addresses.all_allowed([within], rules=Rules())


def test_an_operator_allows_networks_and_nothing_beside_them() -> None:
    rules = Rules(networks=(ip_network("10.20.0.0/16"), ip_network("fd00:1::/32")), plain_http=True)
    for inner in ("10.20.3.4", "::ffff:10.20.3.4", "fd00:1::7", "8.8.8.8"):
        addresses.judge(ip_address(inner), rules=rules)
    for other in ("10.21.0.1", "127.0.0.1", "fd00:2::7", "64:ff9b::10.20.3.4"):
        with pytest.raises(Refused):
            addresses.judge(ip_address(other), rules=rules)
    # A receiver within has an inner name; what it resolves to is judged when it is called.
    assert addresses.parse("http://builds:8080/hook", rules=rules).host == "builds"
    assert addresses.parse("http://10.20.3.4:8080/hook", rules=rules).address is not None
    with pytest.raises(Refused):
        addresses.parse("http://127.1:8080/hook", rules=rules)


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "fd00:ec2::254",
        "168.63.129.16",
        "0.0.0.0",
        "::",
        "224.0.0.1",
        "ff02::1",
        "255.255.255.255",
    ],
)
def test_metadata_services_stay_closed_whatever_is_allowed(address: str) -> None:
    everything = Rules(networks=(ip_network("0.0.0.0/0"), ip_network("::/0")))
    with pytest.raises(Refused):
        addresses.judge(ip_address(address), rules=everything)


def test_one_inner_address_makes_a_name_suspect_as_does_none_at_all() -> None:
    public, inner = ip_address("8.8.8.8"), ip_address("10.0.0.1")
    assert addresses.all_allowed([public], rules=Rules())
    assert not addresses.all_allowed([public, inner], rules=Rules())
    assert not addresses.all_allowed([inner, public], rules=Rules())
    assert not addresses.all_allowed([], rules=Rules())
