"""The states that lists of reservations show, as a filter takes them."""

from typing import Annotated

from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

from bettercompute.states import VISIBLE, ReservationState


class _Visible:
    """No other state is taken, nor offered where one is refused (R9)."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        names = core_schema.literal_schema([str(state) for state in VISIBLE])
        return core_schema.no_info_after_validator_function(ReservationState, names)


VisibleState = Annotated[ReservationState, _Visible]
