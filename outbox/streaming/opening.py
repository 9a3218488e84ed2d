"""How a stream begins: its place is found in Django, and the first bytes of the answer say it.

With them comes the first of what was missed. So where no server process goes on with the stream, a
client that comes back as it is told is given everything all the same, only later.
"""

from django.http import HttpResponse

from bettercompute.errors import Unauthenticated, Unavailable
from bettercompute.iam import standing
from bettercompute.iam.standing import Credential
from outbox import reader
from outbox.cluster import ForeignCluster
from outbox.filters import Filters
from outbox.streaming import frames
from outbox.streaming.marker import HEADER, Marker

FIRST_MAX = 100


def begin(credential: Credential, filters: Filters, *, last: str | None) -> HttpResponse:
    """The head of a stream behind ``last``, and for the server process how it goes on.

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
    body, position = frames.opening(resumed.position), resumed.position
    if resumed.reset:
        body += frames.reset(position)
    elif last is not None:
        missed = reader.EVENTS.follow(
            position,
            limit=FIRST_MAX,
            types=filters.types,
            tenant_id=filters.tenant_id,
            subject=filters.subject,
        )
        body += b"".join(map(frames.event, missed.rows))
        position = missed.position
    answer = HttpResponse(body, content_type=frames.MEDIA_TYPE)
    seconds = None if found.expires_in is None else found.expires_in.total_seconds()
    answer[HEADER] = Marker(credential, filters, position, seconds).write()
    # Proxies are to hand on what comes, when it comes, as it is.
    answer["Cache-Control"] = "no-cache, no-transform"
    answer["X-Accel-Buffering"] = "no"
    return answer
