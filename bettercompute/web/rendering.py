"""Answers as JSON: models of the wire by their aliases, compact."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.http import parse_header_parameters
from pydantic import BaseModel
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from bettercompute.errors import NotAcceptable

_NOTHING = re.compile(r"0(\.0{0,3})?")
_ACCEPTABLE = {"*/*", "application/*", "application/json", "application/problem+json", ""}


class JsonRenderer(BaseRenderer):
    """For views that answer DRF's ``Response``; ``ApiView.answer`` needs no renderer."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        return b"" if data is None else to_bytes(data)


class JsonNegotiation(BaseContentNegotiation):
    """There is one format: whoever accepts it gets it, others read 406."""

    acceptable = frozenset(_ACCEPTABLE)

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        """The JSON parser for a JSON body, else none (415)."""
        media_type, parameters = parse_header_parameters(request.content_type or "")
        charset = parameters.get("charset", "").lower()
        is_json = media_type == "application/json"
        return next(iter(parsers)) if is_json and charset in {"", "utf-8", "utf8"} else None

    def select_renderer(  # type: ignore[override]
        self, request: Request, renderers: list[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        """The JSON renderer.

        Raises:
            NotAcceptable: the Accept header has no room for JSON.
        """
        accepted = request.META.get("HTTP_ACCEPT", "")
        ranges = dict(_weighed(part) for part in accepted.split(","))
        if not any(ranges.get(each, False) for each in self.acceptable):
            raise NotAcceptable
        return renderers[0], renderers[0].media_type


class EventStreamNegotiation(JsonNegotiation):
    """Server-sent events, asked for by their name, or by a client that takes anything."""

    acceptable = frozenset({*_ACCEPTABLE, "text/event-stream", "text/*"})


def _weighed(part: str) -> tuple[str, bool]:
    """A media range of Accept, and whether it is wanted: ``q=0`` says that it is not."""
    try:
        media_range, parameters = parse_header_parameters(part)
    except (LookupError, ValueError):  # parameters in a charset that there is not
        return part, False
    return media_range, not _NOTHING.fullmatch(parameters.get("q", "1"))


def to_bytes(data: Any) -> bytes:
    """JSON of a model, or of plain data with models in it."""
    if isinstance(data, BaseModel):
        return data.model_dump_json(by_alias=True).encode()
    return json.dumps(data, separators=(",", ":"), default=_plain, allow_nan=False).encode()


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"{type(value).__name__} has no JSON form")
