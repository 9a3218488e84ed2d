"""What an agent wants, in a line that a person understands at a glance."""

import pytest

from bettercompute.pages.questions import Told
from reservations.confirming import words

NAMED = Told(
    instant=lambda milliseconds: f"@{milliseconds}",
    thing="2 × H100 in main",
    pool="main",
    people={"usr_b": "bob", "usr_c": "carol"},
)
GPU = {"class": "gpu", "count": 1}


def create(**changes):
    return {"verb": "create", "request": {"devices": [GPU], "duration": "8h", **changes}}


@pytest.mark.parametrize(
    ("asked", "anybody", "named"),
    [
        (
            create(),
            "Reserve 1 GPU for 8h, as soon as it fits",
            "Reserve 1 GPU in main for 8h, as soon as it fits",
        ),
        (
            create(start=0, gang={"nodes": 2}, recurrence={"rule": "FREQ=WEEKLY;COUNT=3"}),
            "Reserve 1 GPU on each of 2 nodes for 8h, from 1970-01-01 00:00 UTC, weekly, 3 times",
            "Reserve 1 GPU on each of 2 nodes in main for 8h, from @0, weekly, 3 times",
        ),
        (
            create(devices=[{"anyOf": [{"class": "gpu.mig", "count": 2, "profile": "1g"}, GPU]}]),
            "Reserve 2 MIG 1g instances or 1 GPU for 8h, as soon as it fits",
            "Reserve 2 MIG 1g instances or 1 GPU in main for 8h, as soon as it fits",
        ),
        (
            create(users=["usr_b", "usr_c"]),
            "Reserve 1 GPU for 8h, as soon as it fits, and share it with 2 members of the tenant",
            "Reserve 1 GPU in main for 8h, as soon as it fits, and share it with bob, carol",
        ),
        (
            {"verb": "extend", "until": 60_000},
            "Extend it until 1970-01-01 00:01 UTC",
            "Extend 2 × H100 in main until @60000",
        ),
        (
            {"verb": "renew", "leaseSeconds": 600},
            "Renew its lease for another 10m",
            "Renew the lease of 2 × H100 in main for another 10m",
        ),
        ({"verb": "release"}, "Release it now", "Release 2 × H100 in main now"),
        (
            {"verb": "share", "users": ["usr_c", "usr_b"]},
            "Share it with 2 members of the tenant",
            "Share 2 × H100 in main with bob, carol",
        ),
        (
            {"verb": "share", "users": ["usr_gone"]},
            "Share it with 1 member of the tenant",
            "Share 2 × H100 in main with 1 member of the tenant",
        ),
        ({"verb": "share", "users": []}, "Stop sharing it", "Stop sharing 2 × H100 in main"),
    ],
)
def test_what_is_wanted(asked, anybody, named):
    assert words.summary(asked) == anybody
    assert words.summary(asked, NAMED) == named
