"""Agents of people: callers and API clients with a delegated token of one of the cast."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.test import Client

from bettercompute import errors
from bettercompute.iam import callers, delegation, tokens
from bettercompute.iam.callers import Caller
from bettercompute.iam.delegation import Delegation
from bettercompute.iam.models import ApiToken
from pools.models import Pool
from reservations import admission, ending
from reservations.confirming import deciding
from reservations.models import Confirmation, Reservation
from tests.support import cast, make
from tests.support.cast import Api

HOLDABLE = delegation.HOLDABLE
CREATE, EXTEND, RELEASE, SHARE = HOLDABLE


@dataclass(frozen=True, slots=True)
class Agent:
    """One delegated token: acting through use cases, and over the API."""

    caller: Caller
    api: Api
    token: ApiToken


def agent(of: str = "alice", *confirm: str, name: str = "trainer") -> Agent:
    """An agent of one of the cast that asks before it does any of these."""
    minted, plaintext = tokens.mint(
        cast.account(of),
        cast.tenant(cast.HOMES[of][0]),
        name=f"for {name}",
        delegated=Delegation(name, frozenset(confirm)),
    )
    return Agent(callers.for_tenant(minted, minted.tenant_id), api(plaintext), minted)


def api(plaintext: str) -> Api:
    """The REST API with this very token."""
    headers = {"Authorization": f"Bearer {plaintext}"}
    return Api(Client(raise_request_exception=False, headers=headers))


def asked(error: errors.ConfirmationRequired) -> Confirmation:
    """The confirmation that a refusal names."""
    return Confirmation.objects.get(pk=error.details["confirmationId"])


def create(asker: Agent, pool: Pool, key: str = "k", **changes: Any) -> Reservation:
    """One try of the agent's create; its reservation, whatever came of it."""
    wanted = make.request(asker.caller, pool, **changes)
    admitted = admission.admit(asker.caller, wanted, idempotency_key=key)
    return Reservation.objects.get(pk=admitted.reservation_id)


def refused(call: Callable[[], object]) -> Confirmation:
    """The confirmation that the call is told to wait for."""
    try:
        call()
    except errors.ConfirmationRequired as error:
        return asked(error)
    raise AssertionError("nobody was asked")


def ask(of: str, *, gpus: int) -> Confirmation:
    """What an agent of one of the cast waits for: to reserve, in the first pool that there is."""
    asker, pool = agent(of, CREATE), Pool.objects.earliest("pk")
    devices = [{"class": "gpu", "count": gpus}]
    return refused(lambda: create(asker, pool, make.key(), devices=devices))


def question(of: str = "alice", reservation: Reservation | None = None) -> Confirmation:
    """What an agent of one of the cast waits for: to release a reservation."""
    reservation = reservation or make.reservation(cast.caller(of), make.pool(), duration="8h")
    asker = agent(of, RELEASE)
    return refused(lambda: ending.release(asker.caller, reservation_id=reservation.pk))


def approved(of: str = "alice") -> Confirmation:
    """The same, approved and not done yet."""
    return deciding.approve(cast.caller(of), confirmation_id=question(of).pk)
