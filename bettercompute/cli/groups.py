"""Groups of which the name alone does something: `pools` lists, `pools main` shows one."""

import click

LIST = "list"


class Collection(click.Group):
    """Things of a kind: with no command they are listed, and what is no command names one."""

    def __init__(self, *args: object, one: str | None = None, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # as click takes them
        self.one = one

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command in that was left out; a shell that completes gets what is there."""
        if not ctx.resilient_parsing and not _is_help(ctx, args):
            if not args or args[0].startswith("-"):
                args = [LIST, *args]
            elif self.one is not None and args[0] not in self.commands:
                args = [self.one, *args]
        return super().parse_args(ctx, args)


def _is_help(ctx: click.Context, args: list[str]) -> bool:
    return bool(args) and args[0] in ctx.help_option_names
