"""Registers whose rows an operator may make and change, each time through a use case and audited.

Which columns may be filled in is listed; everything else of the row is shown. The use case opens
its own transaction, so no other is opened around it.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.widgets import AdminTextInputWidget, RelatedFieldWidgetWrapper
from django.db import models
from django.http import HttpRequest
from django.shortcuts import redirect

from bettercompute import errors
from bettercompute.operators import audit, documents, fields, operations
from bettercompute.operators.registers import OperatorsAdmin

VALUE_MAX = 500
AMOUNT_MAX = 2**53 - 1


class ReasonedForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable at run time
    """A row's form that asks why, and remembers which version it showed (C2)."""

    seen_version = forms.IntegerField(required=False, widget=forms.HiddenInput)
    reason = forms.CharField(
        max_length=operations.REASON_MAX,
        help_text="Kept in the audit with your name.",
        widget=forms.TextInput(attrs={"class": "vTextField", "autocomplete": "off"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "seen_version" in self.fields and self.instance.pk is not None:
            self.initial["seen_version"] = getattr(self.instance, "version", None)


class EditedAdmin(OperatorsAdmin):
    """A register with a form."""

    form = ReasonedForm
    #: What is filled in once, and what may be changed later.
    on_add: tuple[str, ...] = ()
    on_change: tuple[str, ...] = ()
    #: What is never written into the audit.
    unsaid: frozenset[str] = frozenset({"password"})
    #: What may be left empty.
    optional: frozenset[str] = frozenset()
    #: Whether a change is refused where the row is not at the version that the form showed.
    guarded = True

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Where a row can be made at all."""
        return bool(self.on_add) and self.has_view_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Every operator."""
        return bool(self.on_change) and self.has_view_permission(request)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """What may be filled in, why, and the rest to look at."""
        if obj is None:
            return [*self.on_add, "reason"]
        seen = ["seen_version"] if self._is_guarded else []
        return [*self.on_change, "reason", *seen, *self.get_readonly_fields(request, obj)]

    @property
    def _is_guarded(self) -> bool:
        return self.guarded and hasattr(self.model, "version")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Every column that cannot be changed, once there is a row."""
        if obj is None:
            return []
        return fields.columns(self.model, self.links, without=(*self.hidden, *self.on_change))

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Our text columns hold words, not essays."""
        if type(db_field) is models.TextField and not db_field.choices:
            kwargs.setdefault("widget", AdminTextInputWidget())
        if isinstance(db_field, models.JSONField):
            kwargs.setdefault("form_class", documents.DocumentField)
        if isinstance(db_field, models.IntegerField):
            # Amounts, all of them; the bound is what JSON's readers can hold.
            kwargs |= {"min_value": 0, "max_value": AMOUNT_MAX}
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if field is None:
            return None
        field.required = field.required and db_field.name not in self.optional
        if isinstance(field.widget, RelatedFieldWidgetWrapper):
            field.widget = field.widget.widget  # without its pop-up windows
        return field

    def answer(
        self, request: HttpRequest, object_id: str | None, form_url: str, context: dict[str, Any]
    ) -> Any:
        """The page without Django's transaction around it; a refusal is said on it again."""
        try:
            return self._changeform_view(request, object_id, form_url, context)  # type: ignore[attr-defined]
        except errors.ApiError as error:
            messages.error(request, error.message)
            return redirect(request.get_full_path())

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Store the row through its use case, audited."""
        what = self._what(form, change=change)
        why = form.cleaned_data["reason"]
        with audit.act(request.user, obj, what, why=why, adds=not change) as entry:
            if change:
                self.change_row(request.user, obj, {**form.cleaned_data, **_if_match(form)})
            else:
                made = self.add_row(request.user, form.cleaned_data)
                obj.pk = made.pk
                obj._state.adding = False
                entry.about(made)
            entry.done("stored")

    def add_row(self, account: Any, values: dict[str, Any]) -> models.Model:
        """Make a row: one use case."""
        raise NotImplementedError

    def change_row(self, account: Any, row: Any, values: dict[str, Any]) -> None:
        """Change a row: one use case."""
        raise NotImplementedError

    def construct_change_message(
        self, request: HttpRequest, form: Any, formsets: Any, add: bool = False
    ) -> Any:
        """Written already, with the reason; nor were tables on the page saved."""
        return ""

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> None:  # type: ignore[override]
        """Written already."""

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> None:  # type: ignore[override]
        """Written already."""

    def _what(self, form: Any, *, change: bool) -> str:
        asked = [name for name in form.changed_data if name not in {"reason", "seen_version"}]
        said = [self._said(name, form, change) for name in asked]
        verb = "Change" if change else "Add"
        return f"{verb}: {'; '.join(said) or 'nothing'}"

    def _said(self, name: str, form: Any, change: bool) -> str:
        if name in self.unsaid:
            return name
        after = _short(form.cleaned_data[name])
        return (
            f"{name} from {_short(form.initial.get(name))} to {after}"
            if change
            else f"{name} {after}"
        )


def _if_match(form: Any) -> dict[str, frozenset[int] | None]:
    """The version that the form showed, as If-Match of the API; None where it showed none."""
    seen = form.cleaned_data.get("seen_version")
    return {"if_match": None if seen is None else frozenset({seen})}


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= VALUE_MAX else f"{text[:VALUE_MAX]}…"
