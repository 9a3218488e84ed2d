"""Which errors of the database say that it is away, or takes no writes: nothing was decided."""

from django.db import DatabaseError, Error, InterfaceError, InternalError, OperationalError

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
    if not isinstance(error, Error) or error.__cause__ is None:
        return False  # Django's own, not the driver's: a row to be saved is gone, say
    state = getattr(error.__cause__, "sqlstate", None)
    if state is None:
        # The server always gives one. The driver made this of an answer that is none: it broke off,
        # or is not PostgreSQL's.
        return type(error) in {DatabaseError, InternalError}
    return state in _STATES
