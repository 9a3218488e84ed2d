"""A confirmation in plain words. Pure: what is asked, and what a denial says."""

from bettercompute import clock
from bettercompute.pages import questions
from bettercompute.pages.questions import Asked, Told
from reservations.models import Confirmation


def instant_in_utc(milliseconds: int) -> str:
    """An instant for who reads anywhere."""
    return f"{clock.from_ms(milliseconds):%Y-%m-%d %H:%M} UTC"


TO_ANYBODY = Told(instant_in_utc)


def denial(confirmation: Confirmation) -> str:
    """Why an agent may not: what its person said, or that a policy came between."""
    why = f": {confirmation.reason}" if confirmation.reason else ""
    did = "withdrew their approval of" if confirmation.withdrawn else "denied"
    return f"The person you act for {did} this{why.rstrip('.')}."


def summary(asked: Asked, told: Told = TO_ANYBODY) -> str:
    """What the agent wants, in a line."""
    return questions.summary(asked, told)
