"""Where a reader stands: ``(txid, seq)``, written ``<txid>-<seq>`` (C21, C23).

The same for sinks, for SSE's ``Last-Event-ID`` and for readers of the authorization feed. Positions
are compared, never counted with: between two of them lie any number of rows.
"""

import re
from typing import NamedTuple

from bettercompute.errors import InvalidInput

_WRITTEN = re.compile(r"(0|[1-9][0-9]{0,18})-(0|[1-9][0-9]{0,18})", re.ASCII)
_LARGEST = 2**63 - 1  # of a bigint; transaction ids are assigned one by one from 3


class Position(NamedTuple):
    """How far a reader has come: behind the row with this transaction and sequence."""

    txid: int
    seq: int

    def __str__(self) -> str:
        return f"{self.txid}-{self.seq}"


START = Position(0, 0)


def parse(text: str) -> Position:
    """The position that ``str`` wrote.

    Raises:
        InvalidInput: it is nothing that we ever gave out.
    """
    match = _WRITTEN.fullmatch(text)
    if match is None or max(map(int, match.groups())) > _LARGEST:
        raise InvalidInput.at("position", "two numbers, <txid>-<seq>, as the stream gave them")
    return Position(*map(int, match.groups()))
