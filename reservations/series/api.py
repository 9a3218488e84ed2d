"""REST of series. One is made by reserving with a recurrence (`POST /reservations`)."""

from datetime import datetime

from django.http import HttpResponse
from rest_framework.request import Request

from bettercompute import clock, errors
from bettercompute.web import schema
from bettercompute.web.views import ApiView
from bettercompute.wire.base import TenantQuery
from bettercompute.wire.series import (
    SeriesCancel,
    SeriesList,
    SeriesQuery,
    SeriesSkip,
    SeriesWithOccurrences,
)
from pools import instants
from reservations.series import cancelling, queries
from reservations.series.queries import Filters


class SeriesListView(ApiView):
    """The tenant's series."""

    @schema.describe(query=SeriesQuery, answers={200: SeriesList})
    def get(self, request: Request) -> HttpResponse:
        """List recurring reservations, newest first."""
        wanted = self.query(SeriesQuery)
        page = queries.page(
            self.caller(wanted.tenant_id),
            Filters(wanted.scope, tuple(wanted.state)),
            limit=wanted.limit,
            cursor=wanted.cursor,
        )
        return self.answer(SeriesList(items=list(page.items), next_cursor=page.next_cursor))


class SeriesView(ApiView):
    """One series."""

    @schema.describe(query=TenantQuery, answers={200: SeriesWithOccurrences})
    def get(self, request: Request, series_id: str) -> HttpResponse:
        """Get a series, with what became of each occurrence."""
        shown = queries.get(self.caller(self.query(TenantQuery).tenant_id), series_id)
        return self.answer(shown, version=shown.version, live=True)


class SeriesCancelView(ApiView):
    """Ending one."""

    @schema.describe(
        body=SeriesCancel,
        answers={200: SeriesWithOccurrences},
        raises=[errors.ConfirmationRequired, errors.Conflict, errors.InvalidState],
        if_match=True,
    )
    def post(self, request: Request, series_id: str) -> HttpResponse:
        """Cancel what of a series has not begun, all of it or from an occurrence on."""
        wanted = self.body(SeriesCancel)
        caller = self.caller(wanted.tenant_id)
        cancelling.cancel(
            caller,
            series_id=series_id,
            since=None if wanted.since is None else _instant(wanted.since, "from"),
            release_running=wanted.release_running,
            if_match=self.if_match(),
        )
        shown = queries.get(caller, series_id)
        return self.answer(shown, version=shown.version)


class SeriesSkipView(ApiView):
    """Leaving out one occurrence."""

    @schema.describe(
        body=SeriesSkip,
        answers={200: SeriesWithOccurrences},
        raises=[errors.ConfirmationRequired, errors.Conflict, errors.InvalidState],
        if_match=True,
    )
    def post(self, request: Request, series_id: str) -> HttpResponse:
        """Skip one occurrence that has not begun, booked or not."""
        wanted = self.body(SeriesSkip)
        caller = self.caller(wanted.tenant_id)
        occurrence = _instant(wanted.occurrence, "occurrence")
        cancelling.skip(
            caller, series_id=series_id, occurrence=occurrence, if_match=self.if_match()
        )
        shown = queries.get(caller, series_id)
        return self.answer(shown, version=shown.version)


def _instant(given: int | str, path: str) -> datetime:
    try:
        return clock.from_ms(instants.parse(given))
    except instants.InvalidInstant as error:
        raise errors.InvalidInput.at(path, str(error)) from error
