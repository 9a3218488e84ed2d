"""Which errors of the database say that it is away, or takes no writes: nothing was decided."""

from django.db import Error, InterfaceError, OperationalError

# Of the class "invalid transaction state", which psycopg takes for internal errors.
_STATES = {
    "25006",  # read_only_sql_transaction: a standby, or a primary that was told to write nothing
    "25P03",  # idle_in_transaction_session_timeout: the server ended the session under us
    "25P04",  # transaction_timeout
}


def is_outage(error: BaseException | None) -> bool:
    """Whether trying again later may help: it is away, restarting, full, or gave up on us."""
    if isinstance(error, OperationalError | InterfaceError):
        return True
    return isinstance(error, Error) and getattr(error.__cause__, "sqlstate", None) in _STATES
