"""What a statement costs, as rows that it reads: the same on every machine."""

import json
from typing import Any

from django.db import connection


def rows_read(statement: str, table: str, **parameters: Any) -> int:
    """How many rows of a table a statement reads, those thrown away included; it is run."""
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {table}")
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters)
        ((plan,),) = cursor.fetchall()
    (whole,) = json.loads(plan) if isinstance(plan, str) else plan
    return _of(whole["Plan"], table)


def _of(node: dict[str, Any], table: str) -> int:
    own = 0
    if node.get("Relation Name") == table:
        own = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
    return int(own) + sum(_of(child, table) for child in node.get("Plans", []))
