"""Do the workers' work without Celery: for tests, for a look by hand, or for one small machine."""

import signal
import threading
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from bettercompute.coordination import worker


class Command(BaseCommand):
    """Run what is due: once, or every second until SIGTERM."""

    help = "Runs due work and periodic jobs without Celery."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="run what is due now, then end")

    def handle(self, *args: Any, **options: Any) -> None:
        process = worker.current()
        stopping = threading.Event()

        def stop(number: int, frame: FrameType | None) -> None:
            stopping.set()

        if not options["once"]:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, stop)
            process.accompany()
        try:
            while True:
                ran = process.tick()
                if options["once"] or stopping.wait(worker.PULSE_SECONDS):
                    break
        finally:
            process.stop()
        if options["once"]:
            self.stdout.write(f"{ran} done.")
