"""Where the server is and who we are: flag before environment before context.

A token is sent only to the address it was saved with: a flag or variable that names another server
needs BETTER_COMPUTE_TOKEN as well. A context named by a flag is meant whole, so the variables for
address, token and tenant do not reach into it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bettercompute.cli import contexts
from bettercompute.cli.contexts import Config, Context
from bettercompute.cli.private import Unusable

URL_VARIABLE = "BETTER_COMPUTE_URL"
TOKEN_VARIABLE = "BETTER_COMPUTE_TOKEN"  # noqa: S105  (a name, not a token)
TENANT_VARIABLE = "BETTER_COMPUTE_TENANT"
CONTEXT_VARIABLE = "BETTER_COMPUTE_CONTEXT"
LOGIN = contexts.LOGIN


class NotSignedIn(Exception):
    """There is no address or no token; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Given:
    """What the command line names."""

    url: str | None = None
    tenant: str | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """The server to talk to, and as whom."""

    url: str
    token: str = field(repr=False)
    tenant: str | None
    #: the file that the token is from, and whether others could read it until now
    context: str | None = None
    token_file: str | None = None
    was_open: bool = False


def target(environ: Mapping[str, str], given: Given = Given()) -> Target:
    """What a command talks to.

    Raises:
        NotSignedIn: no address, or no token for that address; no such context.
        Unusable: the configuration or the token's file is broken, and is needed.
    """
    named = {} if given.context else environ
    url = (given.url or named.get(URL_VARIABLE, "")).strip().rstrip("/")
    token = named.get(TOKEN_VARIABLE, "").strip()
    tenant = given.tenant or named.get(TENANT_VARIABLE, "").strip() or None
    if url and token:
        return Target(url, token, tenant)
    name, context = _chosen(environ, given, url)
    if token:
        return Target(context.url, token, tenant)
    if url not in ("", context.url):
        raise NotSignedIn(
            f"You are signed in at {context.url}, not at {url}. "
            f"Run `{LOGIN} --url {url}`, or set {TOKEN_VARIABLE}."
        )
    return _with_its_token(environ, name, context, tenant or context.tenant)


def chosen_name(environ: Mapping[str, str], given: Given, config: Config) -> str | None:
    """The context that is meant: by flag, by variable, else the current one."""
    return given.context or environ.get(CONTEXT_VARIABLE, "").strip() or config.current


def preferred_output(environ: Mapping[str, str], given: Given) -> str | None:
    """How the context prints; None where it does not say, or cannot be read."""
    try:
        config = contexts.load(contexts.directory(environ))
    except (Unusable, OSError):
        return None  # said by whatever needs it
    context = config.contexts.get(chosen_name(environ, given, config) or "")
    return None if context is None else context.output


def _chosen(environ: Mapping[str, str], given: Given, url: str) -> tuple[str, Context]:
    config = contexts.load(contexts.directory(environ))
    name = chosen_name(environ, given, config)
    if name is not None and name in config.contexts:
        return name, config.contexts[name]
    if name is not None:
        known = ", ".join(config.contexts) or "none"
        raise NotSignedIn(f"There is no context {name}; there are: {known}. Run `{LOGIN}`.")
    if config.contexts:
        raise NotSignedIn(
            f"No context is in use. Run `better-compute context use NAME`: "
            f"{', '.join(config.contexts)}."
        )
    missing = TOKEN_VARIABLE if url else f"{URL_VARIABLE} and {TOKEN_VARIABLE}"
    raise NotSignedIn(f"You are not signed in. Run `{LOGIN}`, or set {missing}.")


def _with_its_token(
    environ: Mapping[str, str], name: str, context: Context, tenant: str | None
) -> Target:
    variable = contexts.variable(context)
    if variable is not None:
        token = environ.get(variable, "").strip()
        if not token:
            raise NotSignedIn(f"The token of context {name} is in {variable}, which is not set.")
        return Target(context.url, token, tenant, context=name)
    kept = contexts.secret(contexts.directory(environ), name, context)
    if kept is None:
        raise NotSignedIn(f"Context {name} has no token. Run `{LOGIN} --context {name}`.")
    return Target(
        context.url,
        kept.token,
        tenant,
        context=name,
        token_file=str(kept.file),
        was_open=kept.was_open,
    )
