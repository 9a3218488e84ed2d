"""Logs: one line an event, JSON or coloured text, with the request id and never a secret."""

import logging
import logging.config
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog
from django.conf import settings

from bettercompute import redaction

Event = MutableMapping[str, Any]


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
    for name, value in redaction.scrub(dict(event)).items():
        event[name] = value
    return event


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
