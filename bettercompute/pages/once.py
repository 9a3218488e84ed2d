"""A form that makes something makes one, however often it is sent.

It carries a key: the id of what it will make, signed for whoever it was shown to. Whoever presses
twice sends the same id twice, and one row can have it; so both lead to the same thing, also where
both arrive at once. What is made may have a secret, of which only a hash is kept: that comes from
the key as well, so the second answer still has it, and ``onetime`` shows it once.
"""

from collections.abc import Callable

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


def key(request: HttpRequest, prefix: str, visitor: Visitor) -> str:
    """The key of the form that is shown: the one it came with, where it is shown again."""
    if _read(request, prefix, visitor) is not None:
        return request.POST[FIELD]
    nonce = crypto.get_random_string(NONCE_LENGTH)
    return _signer(prefix, visitor).sign(f"{ids.new(prefix)}.{nonce}")


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


def make(request: HttpRequest, *, exists: Callable[[], bool], create: Callable[[], object]) -> None:
    """Make what the form makes, unless it has when it was sent before; the next page says so then.

    Raises:
        errors.Conflict: what it made is no more.
    """
    if not exists():
        try:
            create()
        except (IntegrityError, errors.Conflict) as error:
            if not exists():  # else it was sent twice at this moment, and the other one made it
                if isinstance(error, errors.Conflict):
                    raise
                raise errors.Conflict("What this form made is no more: open it again.") from error
        else:
            return
    messages.info(request, "The form was sent before, and made this then. It is made once.")


def _read(request: HttpRequest, prefix: str, visitor: Visitor) -> Drawn | None:
    try:
        value = _signer(prefix, visitor).unsign(request.POST.get(FIELD, ""))
    except signing.BadSignature:
        return None
    digest = crypto.salted_hmac(FIELD, value, algorithm="sha256").digest()
    return Drawn(value.partition(".")[0], digest)


def _signer(prefix: str, visitor: Visitor) -> signing.Signer:
    caller = visitor.caller
    return signing.Signer(salt=f"{FIELD} {prefix} {caller.tenant_id} {caller.account_id}")
