"""What ends a start: a reason for people, or a person's wish."""


class CannotStart(Exception):
    """The embedded deployment cannot start; the message is one line that says what to do."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class StopRequested(Exception):
    """A signal asked this process to stop."""
