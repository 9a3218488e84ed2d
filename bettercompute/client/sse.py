"""Reading server-sent events from bytes that come in any pieces. Pure."""

from dataclasses import dataclass, field

FRAME_MAX = 4 * 1024 * 1024  # bytes of one event; a server that sends more is none of ours


class FrameTooLarge(Exception):
    """The stream has an event larger than any that the server sends."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands between two empty lines; without data it is no event, though its id counts."""

    id: str | None = None
    event: str = ""
    data: str | None = None
    retry_ms: int | None = None


@dataclass(slots=True)
class Parser:
    """The lines that have come so far."""

    _rest: bytes = b""
    _lines: list[str] = field(default_factory=list)
    _size: int = 0

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that are whole by now.

        Raises:
            FrameTooLarge: one does not end.
        """
        *lines, rest = (self._rest + chunk).split(b"\n")
        self._rest = rest
        found = []
        for raw in lines:
            line = raw.removesuffix(b"\r").decode("utf-8", "replace")
            self._size += len(line)
            if line:
                self._lines.append(line)
            elif self._lines:
                found.append(_frame(self._lines))
                self._lines, self._size = [], 0
        if self._size + len(self._rest) > FRAME_MAX:
            raise FrameTooLarge
        return found


def _frame(lines: list[str]) -> Frame:
    identifier: str | None = None
    event, retry_ms = "", None
    data: list[str] = []
    for line in lines:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "id" if "\x00" not in value:
                identifier = value
            case "event":
                event = value
            case "data":
                data.append(value)
            case "retry" if value.isascii() and value.isdigit():
                retry_ms = int(value)
    return Frame(identifier, event, "\n".join(data) if data else None, retry_ms)
