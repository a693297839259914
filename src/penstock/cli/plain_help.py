"""Help without needless types: no `<bool>` beside a flag, which takes no value, and no `<str>` beside an argument."""

from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup


def _without_types(params: list[Any]) -> list[Any]:
    """The same parameters; Typer shows nothing for the type of flags and arguments."""
    for param in params:
        if isinstance(param, TyperArgument) or getattr(param, "is_flag", False):
            param.display_type_rich = lambda ctx: None
    return params


class PlainCommand(TyperCommand):
    """A command with this kind of help."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """The program with this kind of help."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))
