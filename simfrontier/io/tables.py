"""Parts of forms that are pydantic models and keep the tables `{ value, kind, source }` of their numbers as they stand:
those of collective libraries and of published tables."""

from typing import Annotated, Generic, Self, TypeVar

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from simfrontier.io.bounds import Kind, Text
from simfrontier.io.model import Strict
from simfrontier.limits import CHANNELS, COUNT, LARGEST, LARGEST_SD, SLICES, SMALLEST

T = TypeVar("T", bound=float)


class Number(Strict, Generic[T]):
    value: T
    kind: Kind
    source: Text
    low: T | None = None  # 90 % confidence interval of what was fitted
    high: T | None = None

    @model_validator(mode="after")
    def _lies_within(self) -> Self:
        if self.low is not None and self.high is not None:
            if not self.low <= self.value <= self.high:
                text = f"got {self.low:g} to {self.high:g}, allowed: around {self.value:g}"
                raise PydanticCustomError("said", text)
        elif self.low is not None or self.high is not None:
            raise PydanticCustomError("said", "got one end of an interval, allowed: low and high, or neither")
        return self


class Table(Strict):
    kind: Kind
    source: Text


def _not_tiny(value: float) -> float:
    if value < SMALLEST:
        raise PydanticCustomError("tiny", f"at least {SMALLEST:g}")
    return value


PositiveFloat = Annotated[float, Field(gt=0, le=LARGEST), AfterValidator(_not_tiny)]
NotNegativeFloat = Annotated[float, Field(ge=0, le=LARGEST)]
CountNumber = Number[Annotated[int, Field(ge=1, le=COUNT.most)]]
ChannelsNumber = Number[Annotated[int, Field(ge=1, le=CHANNELS.most)]]
SlicesNumber = Number[Annotated[int, Field(ge=1, le=SLICES.most)]]
PositiveNumber = Number[PositiveFloat]
AtLeastZeroNumber = Number[NotNegativeFloat]
DeviationNumber = Number[Annotated[float, Field(ge=0, le=LARGEST_SD)]]  # of the logarithm of a time
ShareNumber = Number[Annotated[float, Field(gt=0, le=1)]]
PartNumber = Number[Annotated[float, Field(ge=0, le=1)]]
