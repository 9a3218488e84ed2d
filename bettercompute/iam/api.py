"""REST of iam: who am I, tokens, policies (A4)."""

from datetime import datetime

from django.http import HttpResponse
from rest_framework.request import Request

from bettercompute import clock
from bettercompute.errors import Conflict, InvalidInput
from bettercompute.iam import cedar, delegation, memberships, policies, tokens
from bettercompute.iam.delegation import Delegation
from bettercompute.iam.models import ApiToken, Membership, Policy, Role
from bettercompute.iam.policies import Draft
from bettercompute.web import pagination, schema
from bettercompute.web.views import ApiView
from bettercompute.wire import iam as wire
from bettercompute.wire.base import PageQuery, TenantBody, TenantQuery

TOKENS_CURSOR = "tokens"
MEMBERS_CURSOR = "members"


class WhoAmIView(ApiView):
    """The one who asks."""

    @schema.describe(answers={200: wire.WhoAmI})
    def get(self, request: Request) -> HttpResponse:
        """Get who the request is from, and for which tenants it may act."""
        who = self.identity
        token = None
        if who.token_id is not None:
            token = wire.TokenName(
                id=who.token_id,
                name=who.token_name or "",
                delegation=delegation_answer(who.delegation),
            )
        seats = [
            wire.TenantSeat(id=seat.tenant_id, slug=seat.slug, name=seat.name, role=seat.role)
            for seat in who.seats
        ]
        return self.answer(
            wire.WhoAmI(
                account_id=who.account_id,
                username=who.username,
                operator=who.is_operator,
                time_zone=who.time_zone,
                tenants=seats,
                token=token,
            )
        )


class MembersView(ApiView):
    """Who can act for a tenant."""

    @schema.describe(query=wire.MemberQuery, answers={200: wire.MemberList})
    def get(self, request: Request) -> HttpResponse:
        """List the tenant's members by name: those a reservation can be shared with."""
        wanted = self.query(wire.MemberQuery)
        caller = self.caller(wanted.tenant_id)
        after = None
        if wanted.cursor is not None:
            (after,) = pagination.decode(MEMBERS_CURSOR, wanted.cursor, str)
        page = list(memberships.of_tenant(caller.tenant_id, after=after)[: wanted.limit + 1])
        more = len(page) > wanted.limit
        items = [member_answer(member) for member in page[: wanted.limit]]
        cursor = pagination.encode(MEMBERS_CURSOR, items[-1].username) if more else None
        return self.answer(wire.MemberList(items=items, next_cursor=cursor))


class TokensView(ApiView):
    """API tokens of a tenant."""

    @schema.describe(query=wire.TokenQuery, answers={200: wire.TokenList})
    def get(self, request: Request) -> HttpResponse:
        """List one's own tokens; an admin reads all of the tenant's."""
        wanted = self.query(wire.TokenQuery)
        rows = tokens.visible(self.caller(wanted.tenant_id))
        page = pagination.newest(TOKENS_CURSOR, rows, limit=wanted.limit, cursor=wanted.cursor)
        items = [token_answer(token) for token in page.items]
        return self.answer(wire.TokenList(items=items, next_cursor=page.next_cursor))

    @schema.describe(body=wire.TokenCreate, answers={201: wire.TokenCreated})
    def post(self, request: Request) -> HttpResponse:
        """Create a token for oneself; its secret is in this answer and nowhere else."""
        wanted = self.body(wire.TokenCreate)
        caller = self.caller(wanted.tenant_id)
        until = wanted.expires_at
        token, plaintext = tokens.create(
            caller,
            name=wanted.name,
            expires_at=None if until is None else clock.from_ms(until),
            delegated=delegation.asked(wanted.delegation),
        )
        answer = token_answer(token)
        return self.answer(wire.TokenCreated(**answer.model_dump(), token=plaintext), status=201)


class TokenRevokeView(ApiView):
    """Ending one token."""

    @schema.describe(body=TenantBody, answers={200: wire.Token})
    def post(self, request: Request, token_id: str) -> HttpResponse:
        """Revoke a token now; doing so again changes nothing."""
        caller = self.caller(self.body(TenantBody).tenant_id)
        return self.answer(token_answer(tokens.revoke(caller, token_id)))


class PoliciesView(ApiView):
    """Policies that bind a tenant."""

    @schema.describe(query=PageQuery, answers={200: wire.PolicyList})
    def get(self, request: Request) -> HttpResponse:
        """List the tenant's policies and the platform's."""
        wanted = self.query(PageQuery)
        found = policies.visible(self.caller(wanted.tenant_id))
        page = pagination.page("policies", found, wanted, by=_order, kinds=(int, str, str))
        items = [policy_answer(policy) for policy in page.items]
        return self.answer(wire.PolicyList(items=items, next_cursor=page.next_cursor))

    @schema.describe(body=wire.PolicyWrite, answers={201: wire.Policy}, raises=[Conflict])
    def post(self, request: Request) -> HttpResponse:
        """Create a policy. Its text is checked against the schema first."""
        wanted = self.body(wire.PolicyWrite)
        caller = self.caller(wanted.tenant_id)
        created = policies.create(caller, draft=_draft(wanted), platform=wanted.scope == "platform")
        answered = self.answer(policy_answer(created), status=201, version=created.version)
        answered["Location"] = f"/api/v1/policies/{created.pk}"
        return answered


class PolicyExamplesView(ApiView):
    """Policies to start from."""

    @schema.describe(answers={200: wire.PolicyExampleList})
    def get(self, request: Request) -> HttpResponse:
        """List the shipped examples; save one, as it is or changed, to have it bind."""
        items = [
            wire.PolicyExample(name=each.name, about=each.about, text=each.text)
            for each in cedar.examples()
        ]
        return self.answer(wire.PolicyExampleList(items=items))


class PolicyView(ApiView):
    """One policy."""

    @schema.describe(query=TenantQuery, answers={200: wire.Policy})
    def get(self, request: Request, policy_id: str) -> HttpResponse:
        """Get a policy."""
        caller = self.caller(self.query(TenantQuery).tenant_id)
        found = policies.get(caller, policy_id)
        return self.answer(policy_answer(found), version=found.version)

    @schema.describe(
        body=wire.PolicyWrite, answers={200: wire.Policy}, raises=[Conflict], if_match=True
    )
    def put(self, request: Request, policy_id: str) -> HttpResponse:
        """Replace a policy; the new version binds from the next request on."""
        wanted = self.body(wire.PolicyWrite)
        caller = self.caller(wanted.tenant_id)
        stored = policies.get(caller, policy_id)
        if wanted.scope != _scope(stored):
            raise InvalidInput.at("scope", f"this policy's scope is {_scope(stored)}")
        replaced = policies.replace(
            caller, policy_id, draft=_draft(wanted), if_match=self.if_match()
        )
        return self.answer(policy_answer(replaced), version=replaced.version)

    @schema.describe(query=TenantQuery, answers={204: None}, if_match=True)
    def delete(self, request: Request, policy_id: str) -> HttpResponse:
        """Delete a policy."""
        caller = self.caller(self.query(TenantQuery).tenant_id)
        policies.delete(caller, policy_id, if_match=self.if_match())
        return HttpResponse(status=204)


def member_answer(member: Membership) -> wire.Member:
    """A member on the wire."""
    return wire.Member(
        account_id=member.account_id,
        username=member.account.username,
        role="admin" if member.role == Role.ADMIN else "member",
    )


def token_answer(token: ApiToken) -> wire.Token:
    """A token on the wire, without its secret."""
    return wire.Token(
        id=token.pk,
        tenant_id=token.tenant_id,
        account_id=token.account_id,
        username=token.account.username,
        name=token.name,
        created_at=clock.to_ms(token.created_at),
        expires_at=_ms(token.expires_at),
        last_used_at=_ms(token.last_used_at),
        revoked_at=_ms(token.revoked_at),
        delegation=delegation_answer(delegation.stored(token.agent, token.confirm)),
    )


def delegation_answer(known: Delegation | None) -> wire.Delegation | None:
    """A delegation on the wire; null where there is none."""
    if known is None:
        return None
    return wire.Delegation(agent=known.agent, confirm=sorted(known.confirm))


def policy_answer(policy: Policy) -> wire.Policy:
    """A policy on the wire."""
    return wire.Policy(
        id=policy.pk,
        tenant_id=policy.tenant_id,
        scope=_scope(policy),
        name=policy.name,
        text=policy.text,
        enabled=policy.enabled,
        version=policy.version,
        created_at=clock.to_ms(policy.created_at),
    )


def _ms(instant: datetime | None) -> int | None:
    return None if instant is None else clock.to_ms(instant)


def _draft(wanted: wire.PolicyWrite) -> Draft:
    return Draft(wanted.name, wanted.text, wanted.enabled)


def _order(policy: Policy) -> tuple[int, str, str]:
    """The platform's first, then by name."""
    return int(policy.tenant_id is not None), policy.name[: wire.NAME_MAX], policy.pk


def _scope(policy: Policy) -> wire.PolicyScope:
    return "platform" if policy.tenant_id is None else "tenant"
