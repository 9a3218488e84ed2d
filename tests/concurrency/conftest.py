"""Whatever needs several connections may be tried by both ways to PostgreSQL."""

from tests.support.ways import pooler, way

__all__ = ["pooler", "way"]
