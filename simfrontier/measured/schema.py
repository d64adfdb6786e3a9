"""The form of index.toml, which says of every table that simfrontier brings along where it comes from (pydantic)."""

from typing import Annotated

from pydantic import Field

from simfrontier.io import Strict, Text
from simfrontier.measured.rows import Benchmark, CallKind, Form

AtLeastOne = Annotated[int, Field(ge=1)]


class PathologyFile(Strict):
    """Rows that show a fault of a machine or a library and not its law: those that agree with every key given."""

    reason: Text
    machine: Text | None = None
    collective: CallKind | None = None
    library: Text | None = None
    benchmark: Benchmark | None = None
    scope: Text | None = None
    source: Text | None = None  # how the row's source begins
    devices_from: AtLeastOne | None = None
    devices_to: AtLeastOne | None = None
    bytes_from: AtLeastOne | None = None
    bytes_to: AtLeastOne | None = None


class TableFile(Strict):
    file: Text
    form: Form
    title: Text
    citation: Text
    method: Text
    caveats: list[Text] = Field(default_factory=list)
    pathologies: list[PathologyFile] = Field(default_factory=list)


class IndexFile(Strict):
    tables: dict[str, TableFile]
