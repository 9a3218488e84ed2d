"""REST of the policy dry run: what would be decided, and what would have been (R38)."""

from django.http import HttpResponse
from rest_framework.request import Request

from bettercompute.errors import Unsupported
from bettercompute.web import schema
from bettercompute.web.views import ApiView
from bettercompute.wire import dryrun as wire
from reservations import dryrun


class PolicyDryRunView(ApiView):
    """What would be decided."""

    @schema.describe(
        body=wire.PolicyDryRun, answers={200: wire.PolicyVerdict}, raises=[Unsupported]
    )
    def post(self, request: Request) -> HttpResponse:
        """Decide without storing anything, also with a policy that is not saved yet."""
        wanted = self.body(wire.PolicyDryRun)
        return self.answer(dryrun.judge(self.caller(wanted.tenant_id), wanted))
