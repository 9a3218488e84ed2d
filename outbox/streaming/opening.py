"""How a stream begins: its place is found in Django, and the first bytes of the answer say it."""

from math import inf

from django.http import HttpResponse

from bettercompute.errors import Unauthenticated, Unavailable
from bettercompute.iam import standing
from bettercompute.iam.standing import Credential
from outbox import reader
from outbox.cluster import ForeignCluster
from outbox.filters import Filters
from outbox.streaming import frames
from outbox.streaming.marker import HEADER, Marker


def begin(credential: Credential, filters: Filters, *, last: str | None) -> HttpResponse:
    """The head of a stream behind ``last``, and for the server process how it goes on.

    A server that cannot go on ends it here: the client comes back as ``retry`` says, and misses
    nothing.

    Raises:
        Unauthenticated: the credential has ended since it was looked at.
        Unavailable: the outbox was restored from another cluster and is not rebased yet.
    """
    found = standing.present([credential]).get(credential)
    if found is None:
        raise Unauthenticated
    try:
        resumed = reader.resume(last)
    except ForeignCluster as error:
        raise Unavailable("Events stand still until an operator has seen to a restore.") from error
    body = frames.opening(resumed.position)
    if resumed.reset:
        body += frames.reset(resumed.position)
    answer = HttpResponse(body, content_type=frames.MEDIA_TYPE)
    seconds = inf if found.expires_in is None else found.expires_in.total_seconds()
    answer[HEADER] = Marker(credential, filters, resumed.position, seconds).write()
    # Proxies are to hand on what comes, when it comes, as it is.
    answer["Cache-Control"] = "no-cache, no-transform"
    answer["X-Accel-Buffering"] = "no"
    return answer
