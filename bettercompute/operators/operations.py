"""What an operator may do: a page that shows the effect and asks why, then one use case.

The same page serves one row (a button on its page) and several (an action of the list). Doing it
to several is several acts, each audited by itself: one that is refused does not stop the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse

from bettercompute import errors
from bettercompute.operators import audit, fields

if TYPE_CHECKING:
    from bettercompute.operators.registers import OperatorsAdmin

ROWS_MAX = 50
REASON_MAX = 300


class ReasonForm(forms.Form):
    """Why: asked for each act."""

    reason = forms.CharField(
        max_length=REASON_MAX,
        help_text="Kept in the audit with your name.",
        widget=forms.TextInput(attrs={"class": "vTextField", "autocomplete": "off"}),
    )
    field_order: list[str] | None = None

    def order_fields(self, field_order: Any) -> None:
        """The reason comes last, whatever else is asked."""
        super().order_fields([name for name in self.fields if name != "reason"])


@dataclass(frozen=True, slots=True)
class Effect:
    """What an operation would do to one row."""

    sentences: tuple[str, ...]
    headings: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()

    @property
    def table(self) -> object:
        """What it affects."""
        return fields.table(self.headings, self.rows) if self.rows else ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it. A secret is shown once, on the page that answers."""

    text: str
    secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing an operator may do to a row."""

    verb: str
    label: str
    preview: Callable[[Any, Any], Effect]
    apply: Callable[[Any, Any, Mapping[str, Any]], Outcome]
    form: type[ReasonForm] = ReasonForm
    initial: Callable[[Any], Mapping[str, Any]] = lambda _row: {}
    #: Whether a row's page has the button.
    offered: Callable[[Any], bool] = lambda _row: True
    #: Whether it can be done to several rows at once.
    several: bool = True
    #: Takes something away from somebody.
    harsh: bool = False


@dataclass(frozen=True, slots=True)
class Button:
    """The way to an operation from a row's page."""

    label: str
    href: str
    harsh: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """One row that an operation is about, and what would become of it."""

    row: models.Model
    href: str
    effect: Effect | None
    refusal: str = ""

    @property
    def version(self) -> int | str:
        """What the effect was shown of; empty where rows have no versions."""
        return getattr(self.row, "version", "")


def offered(register: OperatorsAdmin, row: models.Model) -> list[Button]:
    """The buttons of a row's page."""
    return [
        Button(each.label, _address(register, each, [row.pk]), each.harsh)
        for each in register.operations
        if each.offered(row)
    ]


def ask(
    register: OperatorsAdmin, request: HttpRequest, operation: Operation, keys: list[Any]
) -> HttpResponse:
    """To the page that asks, for the rows chosen in a list."""
    if len(keys) > ROWS_MAX:
        messages.error(request, f"At most {ROWS_MAX} at a time. Nothing was done.")
        return redirect(request.get_full_path())
    return redirect(_address(register, operation, keys))


def page(register: OperatorsAdmin, request: HttpRequest, verb: str) -> HttpResponse:
    """The page that asks; and the answer, when it is given."""
    if not register.has_view_permission(request):
        raise PermissionDenied
    operation = next((each for each in register.operations if each.verb == verb), None)
    rows = _chosen(register, request)
    if operation is None or not rows or (len(rows) > 1 and not operation.several):
        raise Http404
    data = request.POST if request.method == "POST" else None
    form = operation.form(data, initial=dict(operation.initial(rows[0])))
    if data is not None and form.is_valid():
        return _do(register, request, operation, rows, form.cleaned_data)
    return _question(register, request, operation, rows, form)


def _chosen(register: OperatorsAdmin, request: HttpRequest) -> list[models.Model]:
    source = request.POST if request.method == "POST" else request.GET
    keys = source.getlist("id")
    if len(keys) > ROWS_MAX:
        raise Http404
    found = [register.get_object(request, key) for key in dict.fromkeys(keys)]
    return [row for row in found if row is not None]


def _question(
    register: OperatorsAdmin,
    request: HttpRequest,
    operation: Operation,
    rows: list[models.Model],
    form: ReasonForm,
) -> HttpResponse:
    asked = [_asked(register, request, operation, row) for row in rows]
    context = {
        **register.admin_site.each_context(request),
        "title": f"{operation.label}: {rows[0] if len(rows) == 1 else f'{len(rows)} rows'}",
        "opts": register.model._meta,
        "operation": operation,
        "asked": asked,
        "possible": any(not each.refusal for each in asked),
        "form": form,
        "back": _home(register, rows),
    }
    return TemplateResponse(request, "admin/operation.html", context)


def _asked(
    register: OperatorsAdmin, request: HttpRequest, operation: Operation, row: models.Model
) -> Asked:
    href = fields.address(register.model._meta.label_lower, row.pk)
    try:
        return Asked(row, href, operation.preview(request.user, row))
    except errors.ApiError as error:
        return Asked(row, href, None, error.message)


def _do(
    register: OperatorsAdmin,
    request: HttpRequest,
    operation: Operation,
    rows: list[models.Model],
    answers: Mapping[str, Any],
) -> HttpResponse:
    secrets = []
    for row, seen in zip(rows, _seen(request, rows), strict=True):
        answers = {**answers, "if_match": seen}
        try:
            with audit.act(request.user, row, operation.label, why=answers["reason"]) as entry:
                outcome = operation.apply(request.user, row, answers)
                entry.done(outcome.text)
        except errors.ApiError as error:
            messages.error(request, f"{row}: {error.message}")
            continue
        if outcome.secret:
            secrets.append((row, outcome))
        else:
            messages.success(request, f"{row}: {outcome.text}")
    if not secrets:
        return redirect(_home(register, rows))
    context = {
        **register.admin_site.each_context(request),
        "title": operation.label,
        "opts": register.model._meta,
        "secrets": secrets,
        "back": _home(register, rows),
    }
    return TemplateResponse(request, "admin/secret.html", context)


def _seen(request: HttpRequest, rows: list[models.Model]) -> list[frozenset[int] | None]:
    """The version of each row whose effect was shown, as If-Match of the API (C2)."""
    said = dict(zip(request.POST.getlist("id"), request.POST.getlist("version"), strict=False))
    versions = [said.get(str(row.pk), "") for row in rows]
    return [
        frozenset({int(text)}) if re.fullmatch(r"[0-9]{1,18}", text) else None for text in versions
    ]


def _home(register: OperatorsAdmin, rows: list[models.Model]) -> str:
    """The page of the row, or the list of several."""
    options = register.model._meta
    if len(rows) == 1:
        return fields.address(options.label_lower, rows[0].pk)
    return reverse(f"admin:{options.app_label}_{options.model_name}_changelist")


def _address(register: OperatorsAdmin, operation: Operation, keys: list[Any]) -> str:
    options = register.model._meta
    path = reverse(f"admin:{options.app_label}_{options.model_name}_operate", args=[operation.verb])
    return f"{path}?{urlencode([('id', key) for key in keys])}"
