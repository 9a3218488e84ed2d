"""For operators of the platform: the self-check, and who is in charge of what."""

from dataclasses import replace

from bettercompute.client import calls, flows, paging
from bettercompute.client.flows import Api, Flow
from bettercompute.wire.operating import Lease, LeaseList, SelfCheck

SELF_CHECK_SECONDS = 20.0  # what the server allows itself


def self_check(api: Api) -> Flow[SelfCheck]:
    """What the system promises, and what of it is not kept."""
    call = replace(calls.get("/selfcheck", SelfCheck), holds_seconds=SELF_CHECK_SECONDS)
    return (yield from flows.exchange(api, call))


def leases(api: Api) -> Flow[list[Lease]]:
    """Who is in charge of what, since when."""
    return (yield from paging.whole(api, calls.get("/leases", LeaseList)))
