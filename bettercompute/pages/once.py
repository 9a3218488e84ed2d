"""A form that makes something makes one, however often it is sent.

It carries a key: the id of what it will make, signed for the session it was shown in. Whoever
presses twice sends the same id twice, and one row can have it; so both lead to the same thing, also
where both arrive at once. What is made may have a secret, of which only a hash is kept: that comes
from the key as well, so the second answer still has it, and ``onetime`` shows it once.

The session remembers what its forms made: a form that comes again when that is gone makes no other.
"""

from collections.abc import Callable

from django.conf import settings
from django.contrib import messages
from django.core import signing
from django.db import IntegrityError
from django.http import HttpRequest
from django.utils import crypto

from bettercompute import errors, ids
from bettercompute.ids import Drawn
from bettercompute.pages.visitors import Visitor

FIELD = "once"
NONCE_LENGTH = 32
# In the session: the ids of what was made, and what tells it from others. Its own key would change
# with the secret key or a password, while a form is on its way.
MADE = "made-once"
SESSION = "once"
REMEMBERED = 50


def key(request: HttpRequest, prefix: str, visitor: Visitor) -> str:
    """The key of the form that is shown: the one it came with, where it is shown again."""
    if _read(request, prefix, visitor) is not None:
        return request.POST[FIELD]
    if SESSION not in request.session:
        request.session[SESSION] = crypto.get_random_string(NONCE_LENGTH)
    signer = _signer(request, prefix, visitor, settings.SECRET_KEY)
    return signer.sign(f"{ids.new(prefix)}.{crypto.get_random_string(NONCE_LENGTH)}")


def drawn(request: HttpRequest, prefix: str, visitor: Visitor) -> Drawn:
    """The id of what a form makes, and the bytes of its secret, by the key that it came with.

    Raises:
        errors.InvalidInput: it has none of ours: nothing could tell a second press from another
            wish.
    """
    found = _read(request, prefix, visitor)
    if found is None:
        said = "The form came without its key: nothing was made. Send it again."
        raise errors.InvalidInput(said, errors=[errors.FieldError("", said)])
    return found


def make(
    request: HttpRequest, made_id: str, *, exists: Callable[[], bool], create: Callable[[], object]
) -> bool:
    """Make what the form makes, unless it has when it was sent before; the next page says so then.

    Answers whether it was made now: if not, its secret may be another by this time.

    Raises:
        errors.Conflict: what it made is no more.
    """
    if not exists():
        known = request.session.get(MADE, [])
        if made_id in known:
            raise _gone()
        try:
            create()
        except (IntegrityError, errors.Conflict) as error:
            if not exists():  # else it was sent twice at this moment, and the other one made it
                if isinstance(error, errors.Conflict):
                    raise
                raise _gone() from error
        else:
            request.session[MADE] = [*known, made_id][-REMEMBERED:]
            return True
    messages.info(request, "The form was sent before, and made this then. It is made once.")
    return False


def _gone() -> errors.Conflict:
    return errors.Conflict("What this form made is no more: open it again.")


def _read(request: HttpRequest, prefix: str, visitor: Visitor) -> Drawn | None:
    for secret_key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        try:
            signer = _signer(request, prefix, visitor, secret_key)
            value = signer.unsign(request.POST.get(FIELD, ""))
        except signing.BadSignature:
            continue
        # By the key that signed it: a form of before the key was replaced still makes the same.
        digest = crypto.salted_hmac(FIELD, value, secret=secret_key, algorithm="sha256").digest()
        return Drawn(value.partition(".")[0], digest)
    return None


def _signer(request: HttpRequest, prefix: str, visitor: Visitor, secret_key: str) -> signing.Signer:
    caller, session = visitor.caller, request.session.get(SESSION, "")
    salt = f"{FIELD} {prefix} {caller.tenant_id} {caller.account_id} {session}"
    return signing.Signer(key=secret_key, salt=salt, fallback_keys=[])
