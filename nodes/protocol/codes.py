"""Error codes that an agent acts on; every other problem is a code of ``bettercompute.errors``."""

SESSION_SUPERSEDED = "SESSION_SUPERSEDED"
UNAUTHENTICATED = "UNAUTHENTICATED"
UNAVAILABLE = "UNAVAILABLE"
