"""What operators of the platform read on the wire: the self-check, and who is in charge of what."""

from bettercompute.wire.base import AnswerModel


class CheckFinding(AnswerModel):
    """What is wrong, and what to do about it."""

    message: str
    do: str


class CheckResult(AnswerModel):
    """One promise of the system: kept where nothing was found."""

    check: str
    promise: str
    ok: bool
    findings: list[CheckFinding]
    duration_ms: int


class SelfCheck(AnswerModel):
    """All checks, taken `ageMs` ago by the server that answers."""

    ok: bool
    taken_at: int
    age_ms: int
    checks: list[CheckResult]


class Lease(AnswerModel):
    """Who is in charge of a role. `held` false: nobody is, and the rest is of the last who was."""

    name: str
    role: str
    held: bool
    owner: str
    note: str
    epoch: int
    since: int | None
    lapses_in_ms: int


class LeaseList(AnswerModel):
    """Every role that anybody is or was in charge of, by name."""

    items: list[Lease]
    next_cursor: str | None = None
