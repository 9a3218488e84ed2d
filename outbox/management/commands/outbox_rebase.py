"""After a dump and restore: make old events sort before new ones (C21)."""

from typing import Any

from django.core.management.base import BaseCommand

from bettercompute import acts
from outbox import cluster


class Command(BaseCommand):
    """Rewrite the outbox of a restored database; the control plane may run meanwhile."""

    help = "Rewrites transaction ids and cursors of an outbox restored from another cluster."

    @acts.by_command("outbox_rebase")
    def handle(self, *args: Any, **options: Any) -> None:
        """Rebase, or say that there is nothing to do."""
        if cluster.rebase():
            self.stdout.write("The outbox is rebased: events are delivered again.")
        else:
            self.stdout.write("The outbox is this cluster's own: nothing to do.")
