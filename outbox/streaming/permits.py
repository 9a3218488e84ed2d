"""Who of those that stream may still read events: asked of all at once, at an interval."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta

from bettercompute import errors
from bettercompute.iam import standing
from bettercompute.iam.standing import Credential, Standing
from outbox import rights

#: A credential, and whether it streams the events of all tenants.
Key = tuple[Credential, bool]
#: What a decision was made of, as far as it can change.
_Grounds = tuple[str, bool, str | None]


@dataclass(slots=True)
class Permits:
    """What was decided about each, kept for as long as that was decided on the same grounds."""

    _decided: dict[Key, tuple[_Grounds, bool]] = field(default_factory=dict)

    def renew(self, asked: Collection[Key]) -> dict[Key, timedelta | None]:
        """Those that may go on, and for how long at most where that is known.

        One statement, and no decision where neither role nor policies have changed.
        """
        found = standing.present(list({credential for credential, _ in asked}))
        self._decided = {key: known for key, known in self._decided.items() if key in asked}
        return {
            key: found[key[0]].expires_in
            for key in asked
            if key[0] in found and self._may(key, found[key[0]])
        }

    def _may(self, key: Key, now: Standing) -> bool:
        caller = now.caller
        grounds = (caller.role, caller.is_operator, caller.fingerprint)
        known = self._decided.get(key)
        if known is None or known[0] != grounds:
            known = self._decided[key] = (grounds, _decide(now, platform=key[1]))
        return known[1]


def _decide(now: Standing, *, platform: bool) -> bool:
    """Where the engine cannot say, nobody goes on: who comes back is told why."""
    try:
        rights.require(now.caller, platform=platform)
    except errors.ApiError:
        return False
    return True
