"""The base of forms that are pydantic models: strict, frozen, no unknown keys. Imports pydantic, which takes long."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A table of a file; its fields' types are not converted."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True, defer_build=True)
