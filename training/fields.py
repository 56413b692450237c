"""What the models of the configuration share: strictness and kinds of numbers. Holds no field itself."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

PositiveRate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]
ProperShare = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
"""A part that leaves something of the rest."""


class Strict(BaseModel):
    """Unknown keys are errors; values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)
