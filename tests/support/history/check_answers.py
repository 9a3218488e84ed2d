"""Each answer by itself: its status, its headers, whose reservation it shows."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.history import model
from tests.support.history.anomalies import Anomaly, Kind
from tests.support.history.evidence import Evidence, shown_by
from tests.support.history.recording import Answer, Operation

REQUEST_ID = "x-request-id"


def check(evidence: Evidence) -> Iterator[Anomaly]:
    """Anomalies of single answers."""
    for operation in evidence.operations:
        if operation.answer is not None:
            yield from _status(operation, operation.answer)
            yield from _headers(operation, operation.answer)
            yield from _content(operation)


def _status(operation: Operation, answer: Answer) -> Iterator[Anomaly]:
    name = operation.call.op
    if answer.status >= 500 and answer.status != 503:
        yield _of(operation, Kind.SERVER_ERROR, f"{name} answered {answer.status}")
    elif answer.status not in model.STATUSES[name]:
        yield _of(
            operation, Kind.UNEXPECTED_STATUS, f"{name} answered {answer.status} {operation.code}"
        )
    if answer.status in {429, 503} and "retry-after" not in answer.headers:
        yield _of(operation, Kind.NO_RETRY_AFTER, f"{answer.status} does not say when to retry")


def _headers(operation: Operation, answer: Answer) -> Iterator[Anomaly]:
    identifier = answer.headers.get(REQUEST_ID)
    if not identifier:
        yield _of(operation, Kind.NO_REQUEST_ID, f"{answer.status} without a request id")
    if answer.status >= 400:
        document = operation.document
        is_problem = answer.headers.get("content-type") == "application/problem+json"
        if not is_problem or document.get("status") != answer.status or not document.get("code"):
            yield _of(operation, Kind.BAD_PROBLEM, f"{answer.status} is no problem document")
        elif document.get("requestId") != identifier:
            yield _of(operation, Kind.BAD_PROBLEM, "body and header differ in the request id")
    elif operation.call.op in model.SHOWING and "version" in operation.document:
        etag = answer.headers.get("etag", "")
        if not _is_of_version(etag, operation.document):
            yield _of(operation, Kind.BAD_ETAG, f"the ETag is {etag}, not the version")


def _is_of_version(etag: str, shown: Mapping[str, Any]) -> bool:
    """Its version; what waits moves up in its line without one, so its ETag says more behind it."""
    version = shown["version"]
    if shown.get("waiting") is None:
        return etag == f'"{version}"'
    return re.fullmatch(rf'"{version}\.[0-9a-f]+"', etag) is not None


def _content(operation: Operation) -> Iterator[Anomaly]:
    call = operation.call
    if operation.acknowledged and call.op in model.SHOWING and "version" not in operation.document:
        yield _of(operation, Kind.WRONG_RESERVATION, "the answer is no reservation")
    for shown in shown_by(operation):
        if shown["tenantId"] != call.tenant:
            message = f"{call.caller} of {call.tenant} sees {shown['id']} of {shown['tenantId']}"
            yield _of(operation, Kind.FOREIGN, message)
        if call.target is not None and shown["id"] != call.target:
            yield _of(operation, Kind.WRONG_RESERVATION, f"asked for {call.target}")
        if call.op == "create" and shown["idempotencyKey"] != call.key:
            yield _of(operation, Kind.WRONG_RESERVATION, f"asked with key {call.key}")


def _of(operation: Operation, kind: Kind, message: str) -> Anomaly:
    subject = operation.call.target or operation.call.key or operation.call.op
    return Anomaly(kind, subject, message, (operation.id,))
