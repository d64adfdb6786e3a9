"""A text of a file that is one of some names, which are known only at run time (pydantic)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_core import CoreSchema


@dataclass(frozen=True, slots=True)
class OneOf:
    """Beside a type, `Annotated[str, OneOf(names)]`, what `Literal` is for names that are written out."""

    names: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.literal_schema(list(self.names))
