"""`better-compute events` and `watch`, against a server that says what a test says."""

import json

import pytest

from bettercompute.client.calls import Answer
from tests.support import answers

pytestmark = pytest.mark.rule("A7", "A8")

RSV = "rsv_abc"
SUBJECT = f"reservation/{RSV}"


def event(number, verb, state, **data):
    return {
        "id": f"evt_{number}",
        "type": f"reservation.{verb}",
        "tenantId": answers.TENANT_ID,
        "subject": SUBJECT,
        "data": {"state": state, "poolId": "pool_a", **data},
        "time": answers.NOW_MS + number * 1_000,
    }


PLACED = event(1, "placed", "placed", nodeIds=["node_a", "node_b"])
ACTIVE = event(2, "active", "active")
RELEASED = event(3, "released", "released", reason="release")


def listed(*events, cursor=None, position="7-7"):
    return answers.answer({"items": list(events), "nextCursor": cursor, "position": position})


def streamed(*events, before=""):
    frames = [f"id: 8-{i}\nevent: x\ndata: {json.dumps(each)}\n\n" for i, each in enumerate(events)]
    body = before + "retry: 5\n\n" + "".join(frames)
    return Answer(200, {"Content-Type": "text/event-stream"}, body.encode())


def queries(server, path):
    return [each.path.partition("?")[2] for each in server.received if path in each.path]


def test_events_lists_what_happened_with_its_details(run, serve):
    server = serve({("GET", "/events"): listed(RELEASED, PLACED)})
    result = run("events", "--type", "reservation.*", "--subject", SUBJECT, "--limit", "5")
    assert result.code == 0
    heading, released, placed = result.out.splitlines()
    assert heading.split() == ["TIME", "TYPE", "ABOUT", "DETAILS"]
    assert released.split()[-2:] == ["reason:", "release"]
    assert "today 10:00:03" in released
    assert "nodeIds: node_a, node_b" in placed
    (asked,) = queries(server, "/events")
    assert "types=reservation.%2A" in asked
    assert "subject=reservation%2Frsv_abc" in asked
    assert "limit=5" in asked


def test_limits_are_told_in_gpus_and_not_in_thousandths(run, serve):
    more = event(1, "x", "x", resource="gpuMilli", max=8_500)
    gone = event(2, "x", "x", resource="vcpu", max=None)
    offered = event(3, "x", "x", resources={"gpuMilli": 1_000, "memoryGiB": 64})
    serve({("GET", "/events"): listed(more, gone, offered)})
    told = run("events").out
    assert "max: 8.5 GPUs" in told
    assert "max: no limit of CPUs" in told
    assert "resources: 1 GPU, 64 GiB of memory" in told


def test_events_for_a_program_is_one_document(run, serve):
    serve({("GET", "/events"): listed(RELEASED, PLACED, cursor="more")})
    result = run("events", "--json", "--limit", "1")
    assert json.loads(result.out) == {"items": [RELEASED], "more": True}


def test_nothing_that_happened_is_said(run, serve):
    serve({("GET", "/events"): listed()})
    assert run("events").out == "Nothing happened.\n"


def test_watching_a_reservation_shows_its_past_goes_on_behind_it_and_ends_with_it(run, serve):
    server = serve(
        {
            ("GET", f"/reservations/{RSV}"): answers.answer(answers.reservation("active")),
            ("GET", "/events"): listed(ACTIVE, PLACED),
            ("GET", "/events/stream"): streamed(RELEASED),
        }
    )
    result = run("watch", RSV)
    assert result.code == 0
    assert [line.split()[2] for line in result.out.splitlines()] == [
        "reservation.placed",
        "reservation.active",
        "reservation.released",
    ]
    (stream,) = [each for each in server.received if "/events/stream" in each.path]
    assert stream.headers["last-event-id"] == "7-7"
    assert "subject=reservation%2Frsv_abc" in stream.path


def test_a_reservation_that_is_over_is_not_waited_for(run, serve):
    serve(
        {
            ("GET", f"/reservations/{RSV}"): answers.answer(answers.reservation("released")),
            ("GET", "/events"): listed(RELEASED),
        }
    )
    assert run("watch", RSV).code == 0


def test_watching_for_a_program_is_a_line_each_and_goes_through_a_stream_that_ends(run, serve):
    turns = iter([streamed(PLACED), streamed(ACTIVE), answers.refusal(401, "UNAUTHENTICATED")])
    serve({("GET", "/events/stream"): lambda _: next(turns)})
    result = run("watch", "--json")
    assert [json.loads(line) for line in result.out.splitlines()] == [PLACED, ACTIVE]
    assert result.code == 3


def test_it_ends_after_as_many_as_are_asked_for(run, serve):
    server = serve({("GET", "/events/stream"): streamed(PLACED, ACTIVE)})
    result = run("watch", "--count", "1", "--output", "id", "--after", "3-4")
    assert (result.code, result.out) == (0, "evt_1\n")
    assert server.received[-1].headers["last-event-id"] == "3-4"


def test_what_may_have_been_missed_is_said(run, serve):
    gone = 'id: 9-9\nevent: reset\ndata: {"position":"9-9","detail":"gone"}\n\n'
    serve({("GET", "/events/stream"): streamed(PLACED, before=gone)})
    result = run("watch", "--count", "1", "--quiet")
    assert "Events before 9-9 may be missing" in result.err
    assert "reservation.placed" in result.out


def test_a_reservation_that_is_not_there_is_said_and_not_watched(run, serve):
    assert serve({}) is not None
    result = run("watch", RSV)
    assert result.code == 6


def test_the_events_of_all_tenants_are_asked_for_by_name(run, serve):
    server = serve({("GET", "/events"): listed()})
    run("events", "--platform")
    (asked,) = queries(server, "/events")
    assert "scope=platform" in asked
    assert "tenantId" not in asked
    assert run("watch", RSV, "--platform").code == 2
