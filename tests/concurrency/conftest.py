"""Leases, fences and the queue are tried by both ways to PostgreSQL (C29, C30)."""

from tests.support.ways import pooler, way

__all__ = ["pooler", "way"]
