"""Who called, behind proxies: only what a trusted one wrote is believed (A11)."""

from ipaddress import ip_network

import pytest

from bettercompute.web import addresses

pytestmark = pytest.mark.rule("A11")

OURS = [ip_network("10.0.0.0/8"), ip_network("fd00::/8")]


@pytest.mark.parametrize(
    ("peer", "forwarded", "found"),
    [
        ("203.0.113.9", "", "203.0.113.9"),
        # Nobody of ours wrote this list: anybody could have.
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        # What the client sent itself stands before what our proxy wrote.
        ("10.0.0.1", "1.1.1.1, 198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "198.51.100.1, 10.9.9.9", "198.51.100.1"),
        ("fd00::1", "2001:db8::7", "2001:db8::7"),
        ("::ffff:10.0.0.1", "[2001:db8::7]", "2001:db8::7"),
        ("10.0.0.1", "198.51.100.1, unknown", "10.0.0.1"),
        ("10.0.0.1", ",", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.2", "10.0.0.2"),
        ("", "198.51.100.1", "None"),
        ("10.0.0.1", "1.1.1.1," + "10.0.0.1," * 500 + "10.0.0.1", "10.0.0.1"),
    ],
)
def test_the_client_is_the_last_address_that_no_proxy_of_ours_has(
    peer: str, forwarded: str, found: str
) -> None:
    assert str(addresses.of_client(peer, forwarded, trusted=OURS)) == found


def test_an_ipv6_client_is_limited_by_its_network_of_which_it_has_all() -> None:
    first, second = addresses.whole("2001:db8::1"), addresses.whole("2001:db8::ffff")
    assert first == second == "2001:db8::/64"
    assert addresses.whole("2001:db8:0:1::1") != first
    assert addresses.whole("192.0.2.7") == "192.0.2.7"
    assert addresses.whole("") == ""
