"""Series: recurring reservations. One is made by reserving with a recurrence."""

from collections.abc import Iterable

from bettercompute.client import accounts, calls, flows, paging
from bettercompute.client.flows import Api, Flow, Pages
from bettercompute.states import SeriesState
from bettercompute.wire.series import Series, SeriesList, SeriesWithOccurrences


def get(api: Api, series_id: str) -> Flow[SeriesWithOccurrences]:
    """One series, with what became of each occurrence."""
    tenant_id = yield from accounts.tenant_id_if_named(api)
    path = f"/series/{calls.segment(series_id)}"
    return (
        yield from flows.exchange(api, calls.get(path, SeriesWithOccurrences, tenantId=tenant_id))
    )


def pages(
    api: Api,
    *,
    scope: str = "mine",
    states: Iterable[SeriesState | str] = (),
    page_size: int = 50,
) -> Pages[Series]:
    """Series, newest first: one's own, or with ``scope="all"`` the tenant's."""
    filters = [("scope", scope), ("limit", str(page_size))]
    filters += [("state", str(state)) for state in states]
    call = calls.get("/series", SeriesList)
    return paging.pages(api, calls.with_query(call, filters))


def cancel(
    api: Api,
    series_id: str,
    *,
    since: int | str | None = None,
    release_running: bool = False,
    version: int | None = None,
) -> Flow[SeriesWithOccurrences]:
    """Cancel what has not begun: all of it, or what begins at ``since`` or later.

    With ``version``, only if it is the current one.
    """
    body = {"from": since, "releaseRunning": release_running}
    return (yield from _verb(api, series_id, "cancel", body, version))


def skip(
    api: Api, series_id: str, *, occurrence: int | str, version: int | None = None
) -> Flow[SeriesWithOccurrences]:
    """Leave out the occurrence that begins at this instant, booked or not.

    With ``version``, only if it is the current one.
    """
    return (yield from _verb(api, series_id, "skip", {"occurrence": occurrence}, version))


def _verb(
    api: Api,
    series_id: str,
    verb: str,
    body: dict[str, int | str | bool | None],
    version: int | None,
) -> Flow[SeriesWithOccurrences]:
    given = {name: value for name, value in body.items() if value is not None}
    call = calls.post(
        f"/series/{calls.segment(series_id)}/{verb}",
        {"tenantId": (yield from accounts.tenant_id(api)), **given},
        SeriesWithOccurrences,
        repeatable=version is None,  # its own first try makes another version
        headers=calls.if_match(version),
    )
    return (yield from flows.exchange(api, call))
