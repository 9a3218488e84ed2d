"""Every route of the product, read from the URL configuration: no test keeps a list of its own."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

_PARAMETER = re.compile(r"<(?:(?P<kind>\w+):)?(?P<name>\w+)>")


@dataclass(frozen=True, slots=True)
class Route:
    """One URL pattern, and the methods its view has."""

    template: str
    methods: tuple[str, ...]
    view: Any

    def path(self, value: str = "x") -> str:
        """The path with every parameter filled in."""
        return _PARAMETER.sub(value, self.template)

    def __str__(self) -> str:
        return self.template


def under(prefix: str) -> list[Route]:
    """The routes whose path starts so."""
    return [route for route in _walk(get_resolver(), "/") if route.template.startswith(prefix)]


def _walk(resolver: URLResolver, prefix: str) -> Iterator[Route]:
    for entry in resolver.url_patterns:
        template = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from _walk(entry, template)
        elif isinstance(entry, URLPattern):
            yield Route(template, _methods(entry.callback), entry.callback)


def _methods(view: Any) -> tuple[str, ...]:
    """The methods of a class-based view; a function view is asked by GET."""
    view_class = getattr(view, "cls", None) or getattr(view, "view_class", None)
    if view_class is None:
        return ("GET",)
    names = ("get", "post", "put", "patch", "delete")
    return tuple(name.upper() for name in names if hasattr(view_class, name))
