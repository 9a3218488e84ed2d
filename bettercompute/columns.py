"""Column types and defaults that PostgreSQL has and Django does not."""

from typing import Any

from django.db import models


class Xid8Field(models.Field):  # type: ignore[type-arg]  # not subscriptable at run time
    """A full transaction id, ``xid8``: it never wraps, so it orders events for ever (C21)."""

    def db_type(self, connection: Any) -> str:
        """The column type."""
        return "xid8"

    def from_db_value(self, value: Any, *_: Any) -> int | None:
        """psycopg has no loader for xid8 and hands us its text."""
        return None if value is None else int(value)

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> str | None:
        """xid8 has no cast from bigint, so it is written as text."""
        return None if value is None else str(value)


class ComputeNow(models.Func):
    """``compute_now()``, the one clock (C4)."""

    function = "compute_now"
    template = "%(function)s()"
    output_field = models.DateTimeField()


class CurrentTransaction(models.Func):
    """The id of the transaction that writes the row."""

    function = "pg_current_xact_id"
    template = "%(function)s()"
    output_field = Xid8Field()


class Int8MultirangeField(models.Field):  # type: ignore[type-arg]  # not subscriptable at run time
    """A set of whole numbers as few ranges, ``int8multirange``."""

    def db_type(self, connection: Any) -> str:
        """The column type."""
        return "int8multirange"

    def from_db_value(self, value: Any, *_: Any) -> str:
        """As people read it: ``{[1,5), [7,9)}``."""
        return str(value)
