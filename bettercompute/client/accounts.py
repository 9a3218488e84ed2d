"""Who the client is, and for which tenant it acts."""

from bettercompute.client import calls, failures, flows
from bettercompute.client.flows import Api, Flow
from bettercompute.wire.iam import WhoAmI

TENANT_ID_PREFIX = "ten_"


def whoami(api: Api) -> Flow[WhoAmI]:
    """Who the token stands for, and the tenants it may act for."""
    return (yield from flows.exchange(api, calls.get("/whoami", WhoAmI)))


def tenant_id(api: Api) -> Flow[str]:
    """The tenant to act for: the one the client was given, else the only one there is.

    Raises:
        failures.InvalidInput: there are several, or not the one that was given.
    """
    if api.tenant_id is None:
        given = api.tenant or ""
        if given.startswith(TENANT_ID_PREFIX):
            api.tenant_id = given
        else:
            api.tenant_id = choose((yield from whoami(api)), given)
    return api.tenant_id


def tenant_id_if_named(api: Api) -> Flow[str | None]:
    """The same for reads, where the server itself finds the only tenant there is."""
    return (yield from tenant_id(api)) if api.tenant or api.tenant_id else None


def choose(who: WhoAmI, given: str = "") -> str:
    """The id of the tenant with this id or slug, or of the only one.

    Raises:
        failures.InvalidInput: there are several, or no such one.
    """
    fitting = [seat for seat in who.tenants if given in ("", seat.id, seat.slug)]
    if len(fitting) == 1:
        return fitting[0].id
    slugs = ", ".join(seat.slug for seat in who.tenants) or "none"
    wrong = f"no tenant {given!r}" if given else "name the tenant to act for"
    raise failures.InvalidInput(f"{wrong}; {who.username} belongs to: {slugs}.")
