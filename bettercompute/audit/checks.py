"""Self-checks of the audit: that it is as it was written, and is being sealed."""

from datetime import timedelta

from bettercompute import clock, findings
from bettercompute.audit import sealing, verification
from bettercompute.audit.verification import Found, Link
from bettercompute.findings import Check, Finding

UNSEALED_MAX = timedelta(minutes=15)
LINKS_LOOKED_AT = 500
SEALS_LOOKED_INTO = 3
_TOLD_MAX = 5


@findings.check("audit.intact", invariant=True)
def intact() -> list[Finding]:
    """Nothing in the audit was changed or taken out, as far as seals tell."""
    found = Found()
    links = verification.newest(found, LINKS_LOOKED_AT)
    for link in _some(links):
        verification.members(found, link)
    return [_wrong(each) for each in found.wrong[:_TOLD_MAX]] + [
        Finding(
            "audit.intact",
            f"Some of the audit was sealed with a key that is not known here ({key_id}).",
            "Put the secret key that was in use then into BETTERCOMPUTE_SECRET_KEY_FALLBACKS.",
        )
        for key_id in sorted(found.keys_lost)
    ]


@findings.check("audit.sealed")
def sealed() -> list[Finding]:
    """What is entered in the audit is sealed within a quarter of an hour."""
    oldest = sealing.SEALS.one("unsealed", limit=1)
    if oldest is None or clock.now() - oldest[2] < UNSEALED_MAX:
        return []
    return [
        Finding(
            "audit.sealed",
            f"An entry of the audit has not been sealed since {oldest[2]:%Y-%m-%d %H:%M} UTC.",
            "See that a worker runs, and what its log says of audit-seal.",
        )
    ]


def _some(links: list[Link]) -> list[Link]:
    """The newest, and one of the others by the minute: in time each has its turn."""
    kept = [link for link in links if link.removed_at is None]
    older = kept[:-SEALS_LOOKED_INTO]
    turn = clock.now_ms() // 60_000
    return [*kept[-SEALS_LOOKED_INTO:], *([older[turn % len(older)]] if older else [])]


def _wrong(message: str) -> Finding:
    return Finding(
        "audit.intact",
        f"The audit was tampered with: {message}.",
        "Run manage.py audit_verify for all of it; compare with the digests in the logs of the"
        " workers and with a backup; find out who can write to this database.",
    )


ALL: tuple[Check, ...] = (intact, sealed)
