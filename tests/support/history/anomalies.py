"""What a history may not contain."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Every anomaly that the checker knows."""

    # answers
    SERVER_ERROR = "server-error"
    UNEXPECTED_STATUS = "unexpected-status"
    NO_RETRY_AFTER = "no-retry-after"
    NO_REQUEST_ID = "no-request-id"
    BAD_PROBLEM = "bad-problem"
    BAD_ETAG = "bad-etag"
    WRONG_RESERVATION = "wrong-reservation"
    FOREIGN = "foreign-reservation"
    # idempotency keys
    KEY_MADE_TWO = "key-made-two"
    KEYS_SHARE_ONE = "keys-share-one"
    CREATED_TWICE = "created-twice"
    OTHER_BODY_ACCEPTED = "other-body-accepted"
    REPLAY_REFUSED = "replay-refused"
    CONFLICT_NAMES_ANOTHER = "conflict-names-another"
    GHOST = "ghost"
    # one reservation as a register of versions
    STALE_READ = "stale-read"
    ONE_VERSION_TWO_CONTENTS = "one-version-two-contents"
    ILLEGAL_TRANSITION = "illegal-transition"
    IDENTITY_CHANGED = "identity-changed"
    ALLOCATION_CHANGED = "allocation-changed"
    MOVED = "moved-without-replacement"
    WINDOW_CHANGED = "window-changed"
    VANISHED = "vanished"
    LOST = "acknowledged-and-lost"
    # ends
    NOT_ENDED = "acknowledged-end-not-ended"
    RESURRECTED = "resurrected"
    CANCELLED_TWICE = "cancelled-twice"
    END_REFUSED = "end-refused"
    # holders
    DOUBLE_HOLDING = "double-holding"
    NOT_AS_ASKED = "not-as-asked"
    UNBOOKED = "held-and-not-booked"
    DOUBLE_BOOKING = "double-booking"
    # quota
    OVER_QUOTA = "over-quota"
    QUOTA_LEAKED = "quota-leaked"
    # lists
    LIST_LACKS = "list-lacks"
    LIST_WRONG = "list-wrong"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that cannot have happened if the promises hold, and the operations that show it."""

    kind: Kind
    subject: str
    message: str
    operations: tuple[int, ...] = ()

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.operations))
        return f"{self.kind} {self.subject}: {self.message}" + (shown and f" (operations {shown})")
