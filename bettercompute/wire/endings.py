"""Why a reservation is denied: codes of its ``reason``, which tell a policy from a person."""

DENIED = "denied"
#: What an agent asked for, by the person it acts for: there is a confirmation that says more.
DENIED_BY_OWNER = "denied-by-owner"
WITHDRAWN = "withdrawn"
BY_OWNER = (DENIED_BY_OWNER, WITHDRAWN)
