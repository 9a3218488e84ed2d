"""The exit codes, which are documented (A8)."""

from enum import IntEnum


class Exit(IntEnum):
    """How a run came out."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NOT_AUTHENTICATED = 3
    DENIED = 4
    NO_CAPACITY = 5  # or a conflict, or a quota
    NOT_FOUND = 6
    TIMED_OUT = 7
    INTERRUPTED = 130
