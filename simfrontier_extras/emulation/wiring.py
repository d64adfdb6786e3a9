"""The link graph of some nodes as boxes joined by cables, by which an emulated fabric is built; and its file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from annotated_types import Ge

from simfrontier.base.io import Line, Strict, read_json, typed
from simfrontier.base.wholefile import write_json

FRAME_BYTES: Final = 14  # Ethernet's header, which a shaper counts with every packet


class Cable(Strict):
    """One direction of a link between two boxes: the simulator's name of it, its rate and what a shaper lets through at
    once."""

    name: Line
    link_class: Line
    src: Line
    dst: Line
    bytes_per_s: Annotated[float, Ge(1)]
    burst_bytes: Annotated[int, Ge(0)]


class Wiring(Strict):
    """Boxes (devices, NICs, switches), cables, and routes as numbers of cables.

    `ranks[r]` is the box of rank r; `routes[r][s]` leads from rank r to rank s; `packet_bytes` is the largest packet
    (IP and all within it).
    """

    title: Line
    boxes: tuple[Line, ...]
    ranks: tuple[Line, ...]
    cables: tuple[Cable, ...]
    routes: tuple[tuple[tuple[int, ...], ...], ...]
    packet_bytes: int


def save_wiring(wiring: Wiring, path: Path) -> None:
    """Write the wiring as JSON. Raises InputError."""
    write_json(wiring.model_dump(mode="json"), path)


def load_wiring(path: Path) -> Wiring:
    """Read the wiring of a file. Raises InputError with the file and the place in it."""
    return typed(read_json(path, "wiring"), Wiring, str(path))
