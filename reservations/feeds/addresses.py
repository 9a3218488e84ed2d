"""The secret part of a feed's address: ``bcf_<id>_<secret>``, shown once, kept only as a hash.

The secret has 256 random bits, as an API token's. The id finds the row, so the secret itself is
compared once and in constant time. Pure.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass

from bettercompute.ids import Drawn

PREFIX = "cal_"
_SHAPE = re.compile(r"bcf_([0-9a-z]{26})_([a-z2-7]{52})\Z")
# Compared against when there is no such feed, so that both answers take the same steps.
_NO_HASH = "0" * 64


@dataclass(frozen=True, slots=True)
class Address:
    """The id of the feed that is asked for, and the secret that is shown for it."""

    feed_id: str
    secret: str

    def matches(self, known_hash: str | None) -> bool:
        """Whether the secret is the feed's."""
        return hmac.compare_digest(known_hash or _NO_HASH, hashed(self.secret))

    @property
    def text(self) -> str:
        """As it is written in the address."""
        return f"bcf_{self.feed_id.removeprefix(PREFIX)}_{self.secret}"


def of(drawn: Drawn) -> Address:
    """The address that is made of an id and of bytes that nobody can guess."""
    return Address(drawn.id, drawn.letters)


def read(text: str) -> Address | None:
    """The address in its text; None where that is none."""
    shape = _SHAPE.match(text)
    return None if shape is None else Address(PREFIX + shape[1], shape[2])


def hashed(secret: str) -> str:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()
