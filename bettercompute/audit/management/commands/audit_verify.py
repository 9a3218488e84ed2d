"""Look at all of the audit, however long that takes."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from bettercompute.audit import sealing, verification
from bettercompute.audit.verification import Found


class Command(BaseCommand):
    """``manage.py audit_verify``: every seal and every entry that is kept."""

    help = "Verifies all that is sealed of the audit: nothing was changed or taken out."

    def handle(self, *args: Any, **options: Any) -> None:
        """Say what is wrong; or that nothing is, with the last digest to compare with the logs."""
        found, last = Found(), None
        for link in verification.links():
            verification.chain(found, last, link)
            verification.members(found, link)
            last = link
        for key_id in sorted(found.keys_lost):
            self.stdout.write(f"Not verified: what was sealed with key {key_id}, not known here.")
        if found.wrong:
            raise CommandError("; ".join(found.wrong[:20]))
        end = "" if last is None else f" Seal {last.number} is {last.digest.hex()}."
        self.stdout.write(f"{found.entries} entries in {found.links} seals are intact.{end}")
        unsealed = sealing.SEALS.one("unsealed", limit=1)
        if unsealed is not None:
            since = f"{unsealed[2]:%Y-%m-%d %H:%M} UTC"
            self.stdout.write(f"Not looked at: what was entered since {since}, not sealed yet.")
