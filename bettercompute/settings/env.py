"""Typed reads of the environment; no other module of the settings looks at it."""

import logging
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from psycopg.conninfo import conninfo_to_dict
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Environment(BaseSettings):
    """What a deployment may configure; docs/operations/configuration.md explains each."""

    model_config = SettingsConfigDict(extra="ignore")

    database_url: SecretStr = SecretStr("postgresql:///bettercompute")
    redis_url: SecretStr = SecretStr("redis://127.0.0.1:6379/0")
    bettercompute_secret_key: SecretStr = SecretStr("")
    bettercompute_secret_key_fallbacks: SecretStr = SecretStr("")
    bettercompute_data: Path = Path(".data")
    bettercompute_allowed_hosts: str = ""
    bettercompute_trusted_origins: str = ""
    bettercompute_trusted_proxies: str = ""
    bettercompute_requests_per_second: int = Field(default=200, ge=0)
    bettercompute_attempts_per_minute: int = Field(default=60, ge=0)
    bettercompute_web_threads: int = 8
    bettercompute_log_format: str = "console"
    bettercompute_log_level: str = "INFO"
    bettercompute_log_levels: str = ""
    bettercompute_metrics_token: SecretStr = SecretStr("")
    bettercompute_event_retention_days: int = Field(default=30, ge=1)
    bettercompute_webhook_networks: str = ""
    bettercompute_webhook_plain_http: bool = False
    bettercompute_webhook_retention_days: int = Field(default=30, ge=1)
    bettercompute_webhook_keys: SecretStr = SecretStr("")
    bettercompute_audit_retention_days: int = Field(default=400, ge=30)


def database(url: str) -> dict[str, Any]:
    """Django's settings of one database from a libpq URL or connection string."""
    parts = conninfo_to_dict(url)
    known = {"host": "HOST", "port": "PORT", "user": "USER", "password": "PASSWORD"}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.pop("dbname", "postgres"),
        **{name: str(parts.pop(key, "")) for key, name in known.items()},
        "OPTIONS": {
            # A silent network must not hold a thread for minutes: not while it connects, and not
            # when the database's host goes without a word.
            "connect_timeout": 5,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 20_000,
            **parts,
            # C24: nothing here relies on session state, so a transaction pooler may sit between.
            "prepare_threshold": None,
        },
        "DISABLE_SERVER_SIDE_CURSORS": True,
        "CONN_MAX_AGE": 600,
        "CONN_HEALTH_CHECKS": True,
    }


def networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Networks as an operator lists them: ``10.20.0.0/16, fd00:1::/32, 192.0.2.7``.

    Raises:
        ValueError: one of them is none, or has bits of a host.
    """
    return tuple(ip_network(each.strip()) for each in text.split(",") if each.strip())


def log_levels(text: str) -> dict[str, str]:
    """``reservations=DEBUG,bettercompute.access=WARNING``, by logger.

    Raises:
        ImproperlyConfigured: a part of it is no such thing.
    """
    levels = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, level = (each.strip() for each in part.partition("="))
        levels[name] = log_level(level)
    return levels


def log_level(text: str) -> str:
    """A level's name. Raises: ImproperlyConfigured."""
    level = text.strip().upper()
    if level not in logging.getLevelNamesMapping():
        raise ImproperlyConfigured(f"{text!r} is no level of logs: DEBUG, INFO, WARNING, ERROR.")
    return level


def keys(text: SecretStr) -> tuple[str, ...]:
    """Keys separated by commas, the one in use first."""
    return tuple(part.strip() for part in text.get_secret_value().split(",") if part.strip())


def celery_broker(redis_url: str) -> str:
    """The same server as Celery writes it: a socket is ``redis+socket://``."""
    if not redis_url.startswith("unix://"):
        return redis_url
    path, _, query = redis_url.removeprefix("unix://").partition("?")
    number = query.removeprefix("db=") if query.startswith("db=") else "0"
    return f"redis+socket://{path}?virtual_host={number}"
