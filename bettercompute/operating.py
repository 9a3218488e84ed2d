"""REST and pages of those who run the platform: the self-check, who is in charge (C29, C39)."""

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from rest_framework.request import Request

from bettercompute import clock, errors, selfcheck
from bettercompute.coordination import roles
from bettercompute.coordination.roles import Role
from bettercompute.selfcheck import Outcome, Report
from bettercompute.web import schema
from bettercompute.web.views import ApiView
from bettercompute.wire import operating as wire


class OperatorsView(ApiView):
    """What concerns no tenant, and is nobody's but the operators'."""

    def require_operator(self) -> None:
        """Refuse who is no operator; no tenant is asked for."""
        if not self.identity.is_operator:
            raise errors.AccessDenied(
                "Only an operator of the platform may do this.", needs="operator"
            )


class SelfCheckView(OperatorsView):
    """The promises of the system."""

    @schema.describe(answers={200: wire.SelfCheck}, tag="operating")
    def get(self, request: Request) -> HttpResponse:
        """Check what the system promises; asked often, it answers what it found seconds ago."""
        self.require_operator()
        return self.answer(_self_check(selfcheck.LATEST.report()))


class LeasesView(OperatorsView):
    """Who is in charge."""

    @schema.describe(answers={200: wire.LeaseList}, tag="operating")
    def get(self, request: Request) -> HttpResponse:
        """List who is in charge of what, since when, and until when unless renewed."""
        self.require_operator()
        return self.answer(wire.LeaseList(items=[_lease(role) for role in roles.listed()]))


def self_check_page(request: HttpRequest) -> HttpResponse:
    """Every check for operators at their desk: kept or not, what to do, and how old the look is."""
    context = {**admin.site.each_context(request), "title": "Self-check"}
    try:
        report = selfcheck.LATEST.report()
    except errors.Unavailable as error:
        context["wait"] = error.message
    else:
        context["report"] = report
        context["bad"] = [outcome for outcome in report.outcomes if outcome.findings]
    return TemplateResponse(request, "admin/self_check.html", context)


def _self_check(report: Report) -> wire.SelfCheck:
    return wire.SelfCheck(
        ok=not report.findings,
        taken_at=report.taken_at_ms,
        age_ms=round(report.age_seconds * 1_000),
        checks=[_result(outcome) for outcome in report.outcomes],
    )


def _result(outcome: Outcome) -> wire.CheckResult:
    return wire.CheckResult(
        check=outcome.check.name,
        promise=outcome.check.promise,
        ok=not outcome.findings,
        findings=[wire.CheckFinding(message=f.message, do=f.do) for f in outcome.findings],
        duration_ms=round(outcome.seconds * 1_000),
    )


def _lease(role: Role) -> wire.Lease:
    return wire.Lease(
        name=role.name,
        role=role.words,
        held=role.held,
        owner=role.owner,
        note=role.note,
        epoch=role.epoch,
        since=None if role.since is None else clock.to_ms(role.since),
        lapses_in_ms=0 if role.lapses_in is None else round(role.lapses_in.total_seconds() * 1_000),
    )
