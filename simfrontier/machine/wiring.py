"""The link graph of some nodes as boxes joined by cables: what an emulated fabric is laid out by; and its file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NoReturn

from simfrontier.errors import InputError, nearest
from simfrontier.limits import JSON_FILE
from simfrontier.plaintext import escape_in
from simfrontier.wholefile import write_whole

FORMAT, VERSION = "simfrontier wiring", 1
FRAME_BYTES = 14  # Ethernet's header, which a shaper counts with every packet
PACKET_BYTES = (576, 65535)  # of an IPv4 packet
MAX_BYTES_PER_S = 2.0**60  # a shaper is told bits per second, a whole number of 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Cable:
    """One direction of a link between two boxes: the simulator's name of it, its rate and what a shaper lets through at
    once."""

    name: str
    link_class: str
    src: str
    dst: str
    bytes_per_s: float
    burst_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Boxes (devices, NICs, one switch), cables, and routes as numbers of cables.

    `ranks[r]` is the box of rank r; `routes[r][s]` leads from rank r to rank s; `packet_bytes` is the largest packet
    (IP and all within it).
    """

    title: str
    boxes: tuple[str, ...]
    ranks: tuple[str, ...]
    cables: tuple[Cable, ...]
    routes: tuple[tuple[tuple[int, ...], ...], ...]
    packet_bytes: int


def save_wiring(wiring: Wiring, path: Path) -> None:
    """Write the wiring as JSON; the file is there as a whole or not at all. Raises InputError."""
    text = json.dumps({"format": FORMAT, "version": VERSION, **asdict(wiring)}, sort_keys=True) + "\n"
    write_whole(path, text)


def load_wiring(path: Path) -> Wiring:
    """The wiring of a file; raises InputError with the file and the place in it."""
    try:
        text = JSON_FILE.text(path)
        if fault := escape_in(text):
            raise ValueError(fault)
        form = json.loads(text)
    except OSError as error:
        raise InputError(f"{path}: cannot read the wiring: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a wiring: byte {error.start} is not UTF-8 text") from error
    except RecursionError as error:
        raise InputError(f"{path}: not a wiring: nested too deeply") from error
    except ValueError as error:  # no JSON, a number of more digits than Python reads, or too large a file
        raise InputError(f"{path}: not a wiring: {str(error).partition(';')[0]}") from error
    return _Reader(str(path)).wiring(form)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one file's form, and says where it is not as it has to be."""

    path: str

    def wiring(self, form: object) -> Wiring:
        table = self._table("wiring", form, ("format", "version", *(each.name for each in fields(Wiring))))
        for key, value in (("format", FORMAT), ("version", VERSION)):
            if table[key] != value:
                self._refuse(key, table[key], repr(value))
        boxes, ranks = self._names("boxes", table["boxes"]), self._names("ranks", table["ranks"])
        packet_bytes = self._whole("packet_bytes", table["packet_bytes"], *PACKET_BYTES)
        for rank, box in enumerate(ranks):
            self._known(f"ranks[{rank}]", box, boxes)
        listed = enumerate(self._list("cables", table["cables"]))
        cables = tuple(self._cable(f"cables[{i}]", cable, boxes, packet_bytes) for i, cable in listed)
        self._distinct("cables", [cable.name for cable in cables])
        return Wiring(
            title=self._text("title", table["title"]),
            boxes=boxes,
            ranks=ranks,
            cables=cables,
            routes=self._routes(table["routes"], ranks, cables),
            packet_bytes=packet_bytes,
        )

    def _cable(self, at: str, form: object, boxes: tuple[str, ...], packet_bytes: int) -> Cable:
        table = self._table(at, form, tuple(each.name for each in fields(Cable)))
        rate = table["bytes_per_s"]
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 1 <= rate <= MAX_BYTES_PER_S:
            self._refuse(f"{at}.bytes_per_s", rate, f"a number from 1 to {MAX_BYTES_PER_S:g}")
        cable = Cable(
            name=self._text(f"{at}.name", table["name"]),
            link_class=self._text(f"{at}.link_class", table["link_class"]),
            src=self._known(f"{at}.src", self._text(f"{at}.src", table["src"]), boxes),
            dst=self._known(f"{at}.dst", self._text(f"{at}.dst", table["dst"]), boxes),
            bytes_per_s=float(rate),
            burst_bytes=self._whole(f"{at}.burst_bytes", table["burst_bytes"], packet_bytes + FRAME_BYTES, 1 << 31),
        )
        if cable.src == cable.dst:
            self._refuse(f"{at}.dst", cable.dst, "another box than src")
        return cable

    def _routes(
        self, form: object, ranks: tuple[str, ...], cables: tuple[Cable, ...]
    ) -> tuple[tuple[tuple[int, ...], ...], ...]:
        out = []
        for r, row in enumerate(self._list("routes", form, len(ranks))):
            listed = enumerate(self._list(f"routes[{r}]", row, len(ranks)))
            out.append(tuple(self._route(f"routes[{r}][{s}]", way, ranks[r], ranks[s], cables) for s, way in listed))
        return tuple(out)

    def _route(self, at: str, form: object, src: str, dst: str, cables: tuple[Cable, ...]) -> tuple[int, ...]:
        numbers = self._list(at, form)
        way = tuple(self._whole(f"{at}[{i}]", number, 0, len(cables) - 1) for i, number in enumerate(numbers))
        box, seen = src, {src}
        for number in way:
            cable = cables[number]
            if cable.src != box:
                self._refuse(at, cable.name, f"a cable from {box!r}")
            if cable.dst in seen:
                self._refuse(at, cable.name, "a way that meets no box twice")
            box = cable.dst
            seen.add(box)
        if box != dst:
            self._refuse(at, f"a way to {box}", f"one to {dst!r}")
        return way

    def _table(self, at: str, form: object, keys: tuple[str, ...]) -> dict[str, object]:
        if not isinstance(form, dict):
            self._refuse(at, form, "a table")
        for key in form:
            if key not in keys:
                raise InputError(f"{self.path}: {at}: got key {key!r}; {nearest(key, keys)}")
        for key in keys:
            if key not in form:
                raise InputError(f"{self.path}: {at}: {key} is missing")
        return form

    def _list(self, at: str, form: object, length: int | None = None) -> list[object]:
        if not isinstance(form, list):
            self._refuse(at, form, "a list")
        if length is not None and len(form) != length:
            self._refuse(at, f"{len(form)} entries", f"{length}, one per rank")
        return form

    def _names(self, at: str, form: object) -> tuple[str, ...]:
        names = tuple(self._text(f"{at}[{i}]", each) for i, each in enumerate(self._list(at, form)))
        if not names:
            self._refuse(at, "nothing", "at least one")
        self._distinct(at, list(names))
        return names

    def _distinct(self, at: str, names: list[str]) -> None:
        twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
        if twice is not None:
            self._refuse(at, f"{twice} twice", "every name once")

    def _text(self, at: str, form: object) -> str:
        if not isinstance(form, str) or not form or not form.isprintable():
            self._refuse(at, form, "a text of one line")
        return form

    def _known(self, at: str, name: str, boxes: tuple[str, ...]) -> str:
        if name not in boxes:
            raise InputError(f"{self.path}: {at}: got {name!r}; {nearest(name, boxes)}")
        return name

    def _whole(self, at: str, form: object, least: int, most: int) -> int:
        if isinstance(form, bool) or not isinstance(form, int) or not least <= form <= most:
            self._refuse(at, form, f"a whole number from {least} to {most}")
        return form

    def _refuse(self, at: str, got: object, allowed: str) -> NoReturn:
        said = repr(got)
        raise InputError(f"{self.path}: {at}: got {said if len(said) <= 60 else said[:57] + '...'}; allowed: {allowed}")
