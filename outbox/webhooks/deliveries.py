"""Deliveries: taken up to be sent, finished, and sent again (A6).

Whoever sends one *claims* it first: for a minute it is his. A claim counts the attempt, and its
number is the fence: what came of attempt 3 is written down only while 3 is the attempt under way.
A worker that dies leaves a claim that lapses; what it had sent is sent again, with the same id and
the same bytes.
"""

import contextlib
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction

from bettercompute import sql
from bettercompute.states import EndpointState
from bettercompute.telemetry import tracing
from bettercompute.wire.events import Event
from outbox.models import DeliveryStatus, Lane
from outbox.webhooks import answers, endpoints, former, schedule, sending, signing, vault
from outbox.webhooks.former import Former
from outbox.webhooks.sending import Attempt, Failure

DELIVERIES = sql.load(__package__, "deliveries")

CLAIM_SECONDS = 60  # longer than an attempt may take, and writing down what came of it
SLOW_MS = 2_000  # an endpoint that takes longer has a slow one's slots
#: Of one endpoint at once, by its lane.
EACH_MAX = {Lane.NEW: 1, Lane.QUICK: 32, Lane.SLOW: 1, Lane.FAILING: 1}

_LOST = "Its worker ended while this was sent: what came of it is not known."
_BROKEN_OFF = "Its worker was stopped before the answer came: what came of it is not known."

# The signature would let whoever reads it here send the message as ours for some minutes.
_UNSHOWN_HEADERS = {signing.SIGNATURE_HEADER}


@dataclass(frozen=True, slots=True)
class Claim:
    """A delivery that this process is to send."""

    id: str
    number: int  # of the attempt: the fence
    tries: int  # of its schedule, this one included
    event_id: str
    body: str
    test: bool
    origin: str | None  # of the event: ``tracing.origin``
    endpoint_id: str
    url: str
    lane: Lane
    failures: int  # of the endpoint, in a row
    sealed: str  # its secret
    former: tuple[Former, ...]  # the newest first

    def request(self, *, now_ms: int) -> sending.Request:
        """As it is sent now.

        Raises:
            vault.Unreadable: no key of ours opens the endpoint's secret.
        """
        return sending.Request(
            url=self.url,
            message_id=self.event_id,
            timestamp=now_ms // 1_000,
            body=self.body.encode(),
            secrets=[vault.unseal(self.sealed), *self._former_secrets(now_ms)],
        )

    def _former_secrets(self, now_ms: int) -> Iterator[str]:
        """Those that sign too. One that cannot be read must not keep the others from signing."""
        for each in former.signing(self.former, now_ms=now_ms):
            with contextlib.suppress(vault.Unreadable):  # the self-check says so
                yield vault.unseal(each.sealed)


@dataclass(frozen=True, slots=True)
class Result:
    """What came of an attempt, and when the next one comes, if one does."""

    claim: Claim
    attempt: Attempt
    wait: timedelta | None

    @property
    def status(self) -> DeliveryStatus:
        """What becomes of the delivery."""
        if self.attempt.failure is None:
            return DeliveryStatus.DELIVERED
        return DeliveryStatus.FAILED if self.wait is None else DeliveryStatus.PENDING

    @property
    def gone(self) -> bool:
        """Whether the receiver says that it is no more."""
        return self.attempt.status == answers.GONE


def claim(lane: Lane, *, limit: int) -> list[Claim]:
    """Take up to so many deliveries of a lane; fair between its endpoints."""
    rows = DELIVERIES.all(
        "claim",
        lane=lane.value,
        limit=limit,
        each=EACH_MAX[lane],
        seconds=CLAIM_SECONDS,
        lost=_LOST,
    )
    return [_claim(row) for row in rows]


def claim_test(endpoint_id: str, *, event: Event) -> Claim | None:
    """Make the delivery of a test, taken up by the caller; None while another one is under way."""
    row = DELIVERIES.one(
        "make_test",
        id=f"whd_{event.id.partition('_')[2]}{endpoint_id[-10:]}",
        endpoint_id=endpoint_id,
        event_id=event.id,
        type=event.type,
        subject=event.subject,
        body=event.model_dump_json(by_alias=True),
        origin=tracing.origin(),
        seconds=CLAIM_SECONDS,
    )
    if row is None:
        return None
    found = DELIVERIES.one("claimed", id=row[0])
    assert found is not None
    return _claim(found)


def break_off(under_way: Sequence[tuple[Claim, float]]) -> None:
    """Give back what was sent so many seconds ago, whose answer nobody here waits for any more."""
    if not under_way:
        return
    DELIVERIES.run(
        "break_off",
        ids=[claim.id for claim, _ in under_way],
        numbers=[claim.number for claim, _ in under_way],
        latencies=[round(seconds * 1_000) for _, seconds in under_way],
        said=_BROKEN_OFF,
    )


def result(claim: Claim, attempt: Attempt) -> Result:
    """An attempt, with when to try again."""
    wait = None
    if attempt.failure is not None and not claim.test and attempt.status != answers.GONE:
        luck = random.random()  # noqa: S311  # spreading load, not a secret
        wait = schedule.next_try(claim.tries, luck=luck, retry_after=attempt.retry_after)
    return Result(claim, attempt, wait)


@transaction.atomic
def record(results: Sequence[Result]) -> None:
    """Write down what came of a batch of attempts: of endpoints, deliveries, and each attempt."""
    if not results:
        return
    judged = _judge_endpoints(results)  # first: endpoints are locked before deliveries
    ids = [each.claim.id for each in results]
    numbers = [each.claim.number for each in results]
    DELIVERIES.run(
        "finish",
        ids=ids,
        numbers=numbers,
        urls=[each.claim.url for each in results],
        statuses=[each.status.value for each in results],
        waits=[each.wait for each in results],
    )
    attempts = [each.attempt for each in results]
    DELIVERIES.run(
        "remember",
        ids=ids,
        numbers=numbers,
        headers=[_shown_headers(each) for each in attempts],
        responses=[each.status for each in attempts],
        heads=[_text(_shown_answer(each)) for each in attempts],
        latencies=[each.latency_ms for each in attempts],
        errors=[_text(each.message.encode("utf-8", "replace")) for each in attempts],
    )
    _disable_hopeless(judged)


def send_again(endpoint_id: str, delivery_id: str) -> bool:
    """Have one sent again, now; False where it is on its way, or there is none."""
    return DELIVERIES.run("again", id=delivery_id, endpoint_id=endpoint_id) == 1


def _judge_endpoints(results: Sequence[Result]) -> list[sql.Row]:
    """What the attempts say of their endpoints; answers those of which that is news.

    A test says nothing of an endpoint, but for one thing: that it is gone.
    """
    said = [_said(found) for found in _by_endpoint(results)]
    if not said:
        return []
    return DELIVERIES.all(
        "health",
        ids=[each.endpoint_id for each in said],
        urls=[each.url for each in said],
        succeeded=[each.succeeded for each in said],
        failed=[each.failed for each in said],
        slow=[each.slow for each in said],
        pauses=[each.pause for each in said],
        gone=[each.gone for each in said],
        disable_after=schedule.DISABLE_AFTER,
    )


def _disable_hopeless(judged: Sequence[sql.Row]) -> None:
    for endpoint_id, version, tenant_id, state, gone, too_long in sorted(judged):
        if state == EndpointState.ENABLED and (gone or too_long):
            reason = endpoints.GONE if gone else endpoints.FAILING
            endpoints.disable(endpoint_id, version=version, tenant_id=tenant_id, reason=reason)


@dataclass(frozen=True, slots=True)
class _Said:
    endpoint_id: str
    url: str
    succeeded: bool
    failed: int
    slow: bool
    pause: timedelta | None
    gone: bool


def _by_endpoint(results: Iterable[Result]) -> list[list[Result]]:
    found: dict[tuple[str, str], list[Result]] = {}
    for each in results:
        if not each.claim.test or each.gone:
            found.setdefault((each.claim.endpoint_id, each.claim.url), []).append(each)
    return list(found.values())


def _said(results: Sequence[Result]) -> _Said:
    """What a batch says of one endpoint: it takes something, or it takes nothing."""
    failed = [each for each in results if each.attempt.failure is not None]
    succeeded = len(failed) < len(results)
    asked = [each.attempt.retry_after for each in failed if each.attempt.retry_after is not None]
    asked_max = max(asked) if asked else None
    pause = None
    if not succeeded or asked_max is not None:
        before = 0 if succeeded else results[0].claim.failures + len(failed)
        pause = schedule.pause(before, retry_after=asked_max)
    return _Said(
        endpoint_id=results[0].claim.endpoint_id,
        url=results[0].claim.url,
        succeeded=succeeded,
        failed=len(failed),
        slow=any(each.attempt.latency_ms > SLOW_MS for each in results),
        pause=pause,
        gone=any(each.gone for each in results),
    )


def _claim(row: sql.Row) -> Claim:
    delivery_id, number, tries, event_id, body, test, origin, *of_endpoint = row
    endpoint_id, url, lane, failures, secret, former_secrets, former_until = of_endpoint
    return Claim(
        id=delivery_id,
        number=number,
        tries=tries,
        event_id=event_id,
        body=body,
        test=test,
        origin=origin,
        endpoint_id=endpoint_id,
        url=url,
        lane=Lane(lane),
        failures=failures,
        sealed=secret,
        former=former.kept(former_secrets, former_until),
    )


def _shown_headers(attempt: Attempt) -> str:
    shown = {
        name: value
        for name, value in attempt.request_headers.items()
        if name.lower() not in _UNSHOWN_HEADERS
    }
    return json.dumps(shown)


def _shown_answer(attempt: Attempt) -> bytes:
    header = attempt.request_headers.get(signing.SIGNATURE_HEADER, "")
    signatures = [each.partition(",")[2] for each in header.split()]
    return answers.without(signatures, of=answers.whole(attempt.answer, cut=attempt.answer_cut))


def _text(answer: bytes) -> str:
    """As text that can be stored, whatever it was."""
    return answer.decode("utf-8", "replace").replace("\x00", "\ufffd")


def unreadable_secret(error: vault.Unreadable) -> Attempt:
    """The attempt that was none, since we cannot sign."""
    return Attempt(
        failure=Failure.REFUSED,
        message=f"Nothing was sent: the endpoint's secret cannot be read ({error}). Rotate it.",
        latency_ms=0,
    )
