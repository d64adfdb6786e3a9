"""What a search knows already: results by kind and key, kept in a store under the digest of the search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from simfrontier.records import dataclass
from simfrontier.study import ResultStore

Kind = Literal["outline", "simulated", "own"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Known:
    """Results of the search with this `digest` of all that they depend on."""

    store: ResultStore
    digest: str

    def get(self, kind: Kind, key: str) -> Any | None:
        """Return a result; None where it is not known."""
        return self.store.get(f"{self.digest} {kind} {key}")

    def add(self, kind: Kind, results: Mapping[str, Any]) -> None:
        """Keep results by their keys. Raises NotKeptError."""
        self.store.add({f"{self.digest} {kind} {key}": value for key, value in results.items()})
