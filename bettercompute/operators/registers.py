"""Registers: pages of the operators' admin over one table, by default only to read.

State is never edited by hand (U8). A register that a use case owns is a ``ReadOnlyAdmin``; what an
operator may do there is one of its ``operations``, each with a page that shows the effect first.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.core.exceptions import FieldDoesNotExist
from django.core.paginator import Paginator
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path

from bettercompute.operators import fields, operations, paging
from bettercompute.operators.operations import Operation
from bettercompute.operators.site import is_operator

ROWS_PER_PAGE = 50


class RegisterMixin:
    """What pages and inline tables share: who may look, and how columns are shown."""

    model: type[models.Model]
    #: Text columns that hold ids of other tables: ``{"node_id": "nodes.node"}``.
    links: Mapping[str, str] = {}
    #: Columns that nobody may see.
    hidden: tuple[str, ...] = ()

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Every operator sees everything."""
        return is_operator(request.user)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Rows are made by use cases."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Rows are changed by use cases."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nothing is ever deleted here."""
        return False

    def shown(self, *names: str) -> list[Any]:
        """Columns as they are shown, in this order; other names are methods of the register."""
        return [self._shown(name) for name in names]

    def _shown(self, name: str) -> Any:
        try:
            field = self.model._meta.get_field(name)
        except FieldDoesNotExist:
            return name
        assert isinstance(field, models.Field)
        return fields.column(field, self.links)


class OnwardList(ChangeList):
    """A list of rows too many to count: a page, the one before and the one after."""

    @property
    def newer(self) -> str:
        """The address of the page before; empty on the first."""
        return self._page(self.page_num - 1) if self.page_num > 1 else ""

    @property
    def older(self) -> str:
        """The address of the page after; empty on the last."""
        return self._page(self.page_num + 1) if self.paginator.more else ""

    def _page(self, number: int) -> str:
        return self.get_query_string({PAGE_VAR: number})


class OperatorsAdmin(RegisterMixin, admin.ModelAdmin):  # type: ignore[type-arg]
    """A page of one table."""

    list_per_page = ROWS_PER_PAGE
    list_max_show_all = 0
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    #: Too many rows to count: pages go onward only, and no other column sorts them.
    long = False
    #: What operators may do to a row.
    operations: tuple[Operation, ...] = ()

    @property
    def about(self) -> str:
        """What the register holds: said above its list."""
        return inspect.cleandoc(type(self).__doc__ or "")

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Tables on a row's page are only shown."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        """As for its rows."""
        return is_operator(request.user)

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        """Its columns as they are shown."""
        return self.shown(*map(str, self.list_display))

    def get_sortable_by(self, request: HttpRequest) -> Any:
        """Sorting a long table by a column without an index would read all of it."""
        return () if self.long else super().get_sortable_by(request)

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        """With what list and page name of other tables, so that no row asks for it again."""
        rows = super().get_queryset(request)
        named = self.list_select_related
        return rows.select_related(*named) if isinstance(named, tuple) else rows

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Long lists have no number of pages."""
        return OnwardList if self.long else super().get_changelist(request, **kwargs)

    def get_paginator(
        self, request: HttpRequest, queryset: Any, per_page: int, *args: Any, **kwargs: Any
    ) -> Paginator[Any]:
        """One that counts, or for a long table one that does not."""
        if not self.long:
            return super().get_paginator(request, queryset, per_page, *args, **kwargs)
        return paging.OnwardPaginator(
            queryset, per_page, asked=paging.asked(request.GET.get(PAGE_VAR, ""))
        )

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        """The row of an address; none has a NUL in its id."""
        return None if "\0" in object_id else super().get_object(request, object_id, from_field)

    def get_urls(self) -> list[URLPattern]:
        """One more page: the one that asks before an operation."""
        options = self.model._meta
        view = self.admin_site.admin_view(self.operate)
        name = f"{options.app_label}_{options.model_name}_operate"
        return [path("do/<slug:verb>", view, name=name), *super().get_urls()]

    def operate(self, request: HttpRequest, verb: str) -> HttpResponse:
        """Ask, then do."""
        return operations.page(self, request, verb)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Operations on several rows of the list; each asks on its own page first."""
        return {
            each.verb: (_asking(each), each.verb, each.label)
            for each in self.operations
            if each.several
        }

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        """A row's page, with buttons for what may be done to it."""
        row = None if object_id is None else self.get_object(request, unquote(object_id))
        offered = [] if row is None else operations.offered(self, row)
        context = {"operations": offered, **(extra_context or {})}
        return self.answer(request, object_id, form_url, context)

    def answer(
        self, request: HttpRequest, object_id: str | None, form_url: str, context: dict[str, Any]
    ) -> Any:
        """The page itself."""
        return super().changeform_view(request, object_id, form_url, context)


class ReadOnlyAdmin(OperatorsAdmin):
    """A register to look at: all columns of a row, nothing to fill in."""

    #: Methods of the register shown after the columns.
    also: tuple[str, ...] = ()

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Every column, then what belongs to it from elsewhere."""
        return [*fields.columns(self.model, self.links, without=self.hidden), *self.also]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """All of them."""
        return self.get_fields(request, obj)


class ReadOnlyTable(RegisterMixin, admin.TabularInline):  # type: ignore[type-arg]
    """Rows that belong to another one, on its page."""

    template = "admin/inline_table.html"
    extra = 0
    max_num = 0
    can_delete = False
    #: Columns, in this order.
    columns: tuple[str, ...] = ()

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Its columns."""
        return self.shown(*self.columns)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """All of them."""
        return self.get_fields(request, obj)


def one_of(column: str, values: Iterable[str], title: str = "") -> type[admin.SimpleListFilter]:
    """A filter by one of some known values; Django's own would read the table to find them."""
    known = [str(value) for value in values]

    class OneOf(admin.SimpleListFilter):
        """By one of the values."""

        parameter_name = column

        def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
            return [(value, value) for value in known]

        def queryset(self, request: HttpRequest, queryset: Any) -> Any:
            value = self.value()
            return queryset if value not in known else queryset.filter(**{column: value})

    OneOf.title = title or column.replace("_", " ")
    return OneOf


def _asking(operation: Operation) -> Callable[[Any, HttpRequest, Any], HttpResponse]:
    def ask(register: OperatorsAdmin, request: HttpRequest, rows: Any) -> HttpResponse:
        keys = list(rows.values_list("pk", flat=True)[: operations.ROWS_MAX + 1])
        return operations.ask(register, request, operation, keys)

    return ask
