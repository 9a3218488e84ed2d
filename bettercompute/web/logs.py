"""Logs: one line an event, JSON or coloured text, with the request id and never a secret."""

import logging
import logging.config
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog
from django.conf import settings

Event = MutableMapping[str, Any]

REDACTED = "[redacted]"
_SECRET_NAMES = re.compile(
    r"(?i)(authorization|cookie|password|passwd|secret|token|api[_-]?key|signature|session)"
)
_SECRET_VALUES = re.compile(
    r"bc[tf]_[0-9a-z]{10,}_[a-z2-7]{6,}"  # API tokens, addresses of calendar feeds
    r"|bce_[A-Za-z0-9_-]{20,}"  # enrolments of nodes
    r"|node_[0-9a-z]{26}\.\d+\.[A-Za-z0-9_-]{20,}"  # sessions of node agents
    r"|whsec_[A-Za-z0-9+/=_-]{16,}"  # secrets of webhooks
    r"|(?i:bearer)\s+[A-Za-z0-9._~+/=-]{8,}"
    r"|(?<=://)[^\s/:@]+:[^\s/@]+(?=@)"  # user:password of a URL
)


class Stderr(logging.StreamHandler[Any]):
    """Writes to what is standard error at that moment: a test runner or a supervisor swaps it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        """Looked up each time."""
        return sys.stderr


def configure() -> None:
    """Route structlog and the standard library through the same processors to standard error."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    logging.config.dictConfig(_standard_library(shared))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def redact(_logger: Any, _method: str, event: Event) -> Event:
    """Blank what is named like a secret, and what looks like one inside any text."""
    for name, value in event.items():
        event[name] = REDACTED if _is_secret(name, value) else _scrub(value)
    return event


def _is_secret(name: str, value: object) -> bool:
    is_identifier = name.endswith(("_id", "_name"))
    return not is_identifier and isinstance(value, str) and bool(_SECRET_NAMES.search(name))


def _scrub(value: Any) -> Any:
    if isinstance(value, str):
        return _SECRET_VALUES.sub(REDACTED, value)
    if isinstance(value, dict):
        return {
            key: REDACTED if _is_secret(str(key), item) else _scrub(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_scrub(item) for item in value]
    return value


def _standard_library(shared: list[Any]) -> dict[str, Any]:
    as_json = settings.LOG_FORMAT == "json"
    renderer: list[Any] = (
        [structlog.processors.format_exc_info, redact, structlog.processors.JSONRenderer()]
        if as_json
        else [
            structlog.processors.format_exc_info,
            redact,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ]
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structured": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": [*shared, structlog.stdlib.ExtraAdder()],
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    *renderer,
                ],
            }
        },
        "handlers": {"stderr": {"()": Stderr, "formatter": "structured"}},
        "root": {"handlers": ["stderr"], "level": settings.LOG_LEVEL},
        "loggers": {
            # A 4xx is the client's business and answered; the server's own errors are logged.
            "django.request": {"level": "ERROR"},
            "django.security": {"level": "ERROR"},
            **{name: {"level": level} for name, level in settings.LOG_LEVELS.items()},
        },
    }
