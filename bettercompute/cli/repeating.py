"""What `reserve --repeat` takes."""

from collections.abc import Mapping
from typing import Any

import click

from bettercompute.cli import times
from bettercompute.pages import repeats, zones


class Zone(click.ParamType[str]):
    """``Europe/Berlin``."""

    name = "ZONE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Its name, where the tz database has it."""
        found = zones.named(str(value))
        if found is None:
            self.fail(f"{value!r} is no zone of the tz database: Europe/Berlin", param, ctx)
        return found.key


class Rule(click.ParamType[str]):
    """``weekly mon,wed until 2027-03-01``."""

    name = "HOW OFTEN"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """As a rule of RFC 5545."""
        try:
            return repeats.parse(str(value))
        except repeats.NotUnderstood as error:
            self.fail(str(error), param, ctx)


def recurrence(given: Mapping[str, Any]) -> dict[str, str] | None:
    """The field of a request, in the zone named or the machine's."""
    if given["repeat"] is None:
        if given["time_zone"] is not None:
            raise click.UsageError("--time-zone is for what repeats: give --repeat, too.")
        return None
    if given["start"] is None:
        raise click.UsageError("--repeat needs --start: when the first of them begins.")
    return {"rule": given["repeat"], "timeZone": given["time_zone"] or times.local_zone().key}
