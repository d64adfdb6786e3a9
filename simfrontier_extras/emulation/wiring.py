"""The link graph of some nodes as boxes joined by cables: what an emulated fabric is laid out by; and its file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Le, Len

from simfrontier.errors import InputError, Key, shown, unknown, wrong
from simfrontier.io import Line, headed, read_json, typed
from simfrontier.wholefile import write_whole

FORMAT, VERSION = "simfrontier wiring", 1
FRAME_BYTES = 14  # Ethernet's header, which a shaper counts with every packet
PACKET_BYTES = (576, 65535)  # of an IPv4 packet
MAX_BYTES_PER_S = 2.0**60  # a shaper is told bits per second, a whole number of 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Cable:
    """One direction of a link between two boxes: the simulator's name of it, its rate and what a shaper lets through at
    once."""

    name: Line
    link_class: Line
    src: Line
    dst: Line
    bytes_per_s: Annotated[float, Ge(1), Le(MAX_BYTES_PER_S)]
    burst_bytes: Annotated[int, Ge(0), Le(1 << 31)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Boxes (devices, NICs, one switch), cables, and routes as numbers of cables.

    `ranks[r]` is the box of rank r; `routes[r][s]` leads from rank r to rank s; `packet_bytes` is the largest packet
    (IP and all within it).
    """

    title: Line
    boxes: Annotated[tuple[Line, ...], Len(1)]
    ranks: Annotated[tuple[Line, ...], Len(1)]
    cables: tuple[Cable, ...]
    routes: tuple[tuple[tuple[int, ...], ...], ...]
    packet_bytes: Annotated[int, Ge(PACKET_BYTES[0]), Le(PACKET_BYTES[1])]


def save_wiring(wiring: Wiring, path: Path) -> None:
    """Write the wiring as JSON; the file is there as a whole or not at all. Raises InputError."""
    text = json.dumps({"format": FORMAT, "version": VERSION, **asdict(wiring)}, sort_keys=True) + "\n"
    write_whole(path, text)


def load_wiring(path: Path) -> Wiring:
    """The wiring of a file; raises InputError with the file and the place in it."""
    where = str(path)
    wiring = typed(headed(read_json(path, "wiring"), "wiring", FORMAT, VERSION, where), Wiring, where)
    try:
        _refuse_unfit(wiring)
    except InputError as error:
        raise error.within(where) from None
    return wiring


def _refuse_unfit(wiring: Wiring) -> None:
    """Raise InputError, at a key, for what does not fit together."""
    for key, names in (("boxes", wiring.boxes), ("cables", tuple(cable.name for cable in wiring.cables))):
        _refuse_twice(key, names)
    for rank, box in enumerate(wiring.ranks):
        _refuse_unknown(("ranks", rank), box, wiring.boxes)
    _refuse_twice("ranks", wiring.ranks)
    for number, cable in enumerate(wiring.cables):
        at: Key = ("cables", number)
        _refuse_unknown((*at, "src"), cable.src, wiring.boxes)
        _refuse_unknown((*at, "dst"), cable.dst, wiring.boxes)
        if cable.src == cable.dst:
            raise InputError(wrong(cable.dst, "another box than src"), key=(*at, "dst"))
        if cable.burst_bytes < (least := wiring.packet_bytes + FRAME_BYTES):
            raise InputError(wrong(cable.burst_bytes, f"at least a packet, {least}"), key=(*at, "burst_bytes"))
    size = len(wiring.ranks)
    for place, length in ((("routes",), len(wiring.routes)), *_lengths(wiring)):
        if length != size:
            raise InputError(f"got {length} entries, allowed: {size}, one per rank", key=place)
    for src, row in enumerate(wiring.routes):
        for dst, route in enumerate(row):
            _refuse_route(("routes", src, dst), route, wiring, src, dst)


def _lengths(wiring: Wiring) -> Iterator[tuple[Key, int]]:
    for number, row in enumerate(wiring.routes):
        yield ("routes", number), len(row)


def _refuse_route(key: Key, route: Sequence[int], wiring: Wiring, src: int, dst: int) -> None:
    """A route leads from box to box, meets none twice, and ends at its rank's."""
    box, end = wiring.ranks[src], wiring.ranks[dst]
    seen = {box}
    for place, number in enumerate(route):
        if not 0 <= number < len(wiring.cables):
            text = f"a whole number from 0 to {len(wiring.cables) - 1}"
            raise InputError(wrong(number, text), key=(*key, place))
        cable = wiring.cables[number]
        if cable.src != box:
            raise InputError(wrong(cable.name, f"a cable from {shown(box)}"), key=key)
        if cable.dst in seen:
            raise InputError(wrong(cable.name, "a route that visits no box twice"), key=key)
        box = cable.dst
        seen.add(box)
    if box != end:
        raise InputError(wrong(f"a route to {box}", f"one to {shown(end)}"), key=key)


def _refuse_twice(key: str, names: Sequence[str]) -> None:
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        raise InputError(f"got {shown(twice)} twice, allowed: every name once", key=(key,))


def _refuse_unknown(key: Key, name: str, boxes: Sequence[str]) -> None:
    if name not in boxes:
        raise InputError(unknown(name, boxes), key=key)
