"""REST of confirmations (A4)."""

from collections.abc import Callable

from django.http import HttpResponse
from rest_framework.request import Request

from bettercompute import clock, errors
from bettercompute.states import ConfirmationState
from bettercompute.web import pagination, schema
from bettercompute.web.views import ApiView
from bettercompute.wire import confirmations as wire
from bettercompute.wire.base import TenantBody, TenantQuery
from reservations.confirming import deciding, lookups, words
from reservations.models import Confirmation

CURSOR = "confirmations"


class ConfirmationsView(ApiView):
    """What agents ask for."""

    @schema.describe(query=wire.ConfirmationQuery, answers={200: wire.ConfirmationList})
    def get(self, request: Request) -> HttpResponse:
        """List what agents asked, newest first: oneself, or with `all` of an admin's tenant."""
        wanted = self.query(wire.ConfirmationQuery)
        caller = self.caller(wanted.tenant_id)
        rows = lookups.visible(caller)
        if wanted.scope == "mine":
            rows = rows.filter(account_id=caller.account_id)
        if wanted.state:
            rows = rows.filter(state__in=wanted.state)
        page = pagination.newest(CURSOR, rows, limit=wanted.limit, cursor=wanted.cursor)
        items = [answer(row) for row in page.items]
        return self.answer(wire.ConfirmationList(items=items, next_cursor=page.next_cursor))


class ConfirmationView(ApiView):
    """One of them."""

    @schema.describe(query=TenantQuery, answers={200: wire.Confirmation})
    def get(self, request: Request, confirmation_id: str) -> HttpResponse:
        """Get a confirmation: an agent sees here whether its person has decided."""
        caller = self.caller(self.query(TenantQuery).tenant_id)
        shown = answer(lookups.get(caller, confirmation_id))
        return self.answer(shown, version=shown.version)


class ApproveView(ApiView):
    """Letting the agent."""

    @schema.describe(
        body=TenantBody,
        answers={200: wire.Confirmation},
        raises=[errors.InvalidState],
        if_match=True,
    )
    def post(self, request: Request, confirmation_id: str) -> HttpResponse:
        """Approve what one's agent asks for: it is done when the agent sends its call again."""
        caller = self.caller(self.body(TenantBody).tenant_id)
        deciding.approve(caller, confirmation_id=confirmation_id, if_match=self.if_match())
        shown = answer(lookups.get(caller, confirmation_id))
        return self.answer(shown, version=shown.version)


class _RefusingView(ApiView):
    """What denying and withdrawing have in common."""

    def refuse(self, act: Callable[..., Confirmation], confirmation_id: str) -> HttpResponse:
        """Do it, with the reason in the body, and answer what it is then."""
        wanted = self.body(wire.Denial)
        caller = self.caller(wanted.tenant_id)
        act(
            caller,
            confirmation_id=confirmation_id,
            reason=wanted.reason,
            if_match=self.if_match(),
        )
        shown = answer(lookups.get(caller, confirmation_id))
        return self.answer(shown, version=shown.version)


class DenyView(_RefusingView):
    """Not letting the agent."""

    @schema.describe(
        body=wire.Denial,
        answers={200: wire.Confirmation},
        raises=[errors.InvalidState],
        if_match=True,
    )
    def post(self, request: Request, confirmation_id: str) -> HttpResponse:
        """Deny what one's agent asks for, and tell it why."""
        return self.refuse(deciding.deny, confirmation_id)


class WithdrawView(_RefusingView):
    """No longer letting the agent."""

    @schema.describe(
        body=wire.Denial,
        answers={200: wire.Confirmation},
        raises=[errors.InvalidState],
        if_match=True,
    )
    def post(self, request: Request, confirmation_id: str) -> HttpResponse:
        """Withdraw an approval that one's agent has not used: it is denied from then on."""
        return self.refuse(deciding.withdraw, confirmation_id)


def answer(row: Confirmation) -> wire.Confirmation:
    """A confirmation on the wire."""
    return wire.Confirmation(
        id=row.id,
        tenant_id=row.tenant_id,
        account_id=row.account_id,
        username=row.account.username,
        agent=row.agent,
        token_id=row.token_id,
        action=row.action,
        resource_id=row.resource_id,
        summary=words.summary(row.asked),
        asked=row.asked,
        state=ConfirmationState(row.state),
        reason=row.reason or None,
        asked_at=clock.to_ms(row.asked_at),
        expires_at=clock.to_ms(row.expires_at),
        decided_at=None if row.decided_at is None else clock.to_ms(row.decided_at),
        decided_by=row.decided_by_id,
        withdrawn=row.withdrawn,
        version=row.version,
    )
