"""Errors on the wire: ``application/problem+json`` (A3, RFC 9457)."""

from typing import Any

from bettercompute.wire.base import AnswerModel


class Problem(AnswerModel):
    """What went wrong. `code` is for programs, `detail` for people."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    details: dict[str, Any]
    request_id: str
