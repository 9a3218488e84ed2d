"""Hearing through Valkey that something was written: it only makes a stream quicker (C1).

What is heard are the hints that wake the workers. Without Valkey nothing is heard, and the reader
looks every second all the same.
"""

import asyncio
from collections.abc import Callable

import redis.asyncio
import structlog
from django.conf import settings
from redis.exceptions import RedisError

log = structlog.get_logger(__name__)

RETRY_SECONDS = 5.0
LISTEN_SECONDS = 1.0
CONNECT_SECONDS = 2.0


async def listen(heard: Callable[[], None]) -> None:
    """Call ``heard`` at every hint, until cancelled."""
    is_away = False
    while True:
        try:
            await _listen(heard)
        except (RedisError, OSError) as error:
            if not is_away:
                log.warning("no hints for event streams", reason=type(error).__name__)
            is_away = True
        _end_if_cancelled()
        await asyncio.sleep(RETRY_SECONDS)


async def _listen(heard: Callable[[], None]) -> None:
    connection = redis.asyncio.from_url(
        settings.REDIS_URL,
        socket_connect_timeout=CONNECT_SECONDS,
        health_check_interval=25,
    )
    async with connection, connection.pubsub() as channel:
        # Celery's transport puts its own marks before the exchange's name.
        await channel.psubscribe(f"*{settings.CELERY_TASK_DEFAULT_EXCHANGE}*")
        while True:
            _end_if_cancelled()
            if await channel.get_message(ignore_subscribe_messages=True, timeout=LISTEN_SECONDS):
                heard()


def _end_if_cancelled() -> None:
    """The client takes a cancellation that comes while it connects for its own, and goes on."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
