"""Limits of what is read: one budget per kind of file, on bytes as written and on what they mean once expanded.

A reader counts first and expands afterwards, so that a small file cannot ask for unbounded work.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from simfrontier.inputfile import open_input
from simfrontier.records import dataclass

_MAX_WRITTEN: Final = 10**18  # larger counts are not written out


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The most of something that is taken: how many, of what, and why no more."""

    most: int
    what: str
    why: str

    def fault(self, got: int) -> str | None:
        """What is wrong with so many, if anything: got and allowed, in words."""
        if got <= self.most:
            return None
        text = f"{got:,}" if got <= _MAX_WRITTEN else f"more than {_MAX_WRITTEN:.0e}"
        return f"{text} {self.what}; allowed: up to {self.most:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimit:
    """The most bytes that a kind of file may have, and why no more."""

    most_bytes: int
    why: str

    def read(self, path: Path) -> bytes:
        """All bytes of a file. Raises OSError as reading does, and ValueError where the file is larger than the limit,
        of which no more than that is read."""
        with open_input(path) as file:
            data = file.read(self.most_bytes + 1)
        if len(data) > self.most_bytes:
            raise ValueError(f"more than {self.most_bytes:,} bytes; allowed: up to {self.most_bytes:,} in such a file")
        return data

    def text(self, path: Path) -> str:
        """The same as UTF-8 with any ends of lines; raises UnicodeDecodeError (a ValueError) for other bytes."""
        return self.read(path).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


WHAT_IFS: Final = Limit(
    most=20_000,
    what="what-ifs in one question",
    why="each keeps the times of some hundred ops, on every class of ranks: 20 kB, with 128 classes 400 kB",
)
PROCESSES: Final = Limit(
    most=1024, what="processes", why="45 MB of its own each, before its first call; nodes have up to some hundred cores"
)
RANKS_STARTED: Final = Limit(
    most=1024, what="ranks on this machine", why="each is a process with torch: of some 100 MB, and seconds to start"
)

# ── files, in bytes as written ──

SCHEDULE_FILE: Final = FileLimit(
    most_bytes=32 << 20,
    why="stored schedules repeat nothing: 16 stages of a 1T model are 70 kB; parsed JSON takes 20 x",
)
LOWERED_FILE: Final = FileLimit(most_bytes=32 << 20, why="recipes repeat once: 128 ranks of the toy plans are 40 kB")
CHECKPOINT_FILE: Final = FileLimit(
    most_bytes=64 << 20,
    why="manifests, and headers of files: 150 bytes a rank and 20 a step, 400 for every tensor of a rank",
)
TRACE_FILE: Final = FileLimit(most_bytes=512 << 20, why="400 bytes for every op of every rank that is told apart")
KINETO_FILE: Final = FileLimit(
    most_bytes=2 << 30, why="unpacked; a step of 100,000 kernels with the host's calls has 100 MB, with stacks a GB"
)
JSON_FILE: Final = FileLimit(most_bytes=4 << 20, why="lists of jobs and wirings of an emulation: kilobytes")
TOML_FILE: Final = FileLimit(most_bytes=4 << 20, why="the largest file of the catalog has 12 kB, a calibration 100 kB")
TABLE_FILE: Final = FileLimit(most_bytes=64 << 20, why="a million lines of measurements, losses or a job's log")
XML_FILE: Final = FileLimit(
    most_bytes=4 << 20, why="a dump of 16 devices has 18 kB; 128 devices, each linked to all others, 1.2 MB"
)
RANK_FILE: Final = FileLimit(
    most_bytes=32 << 20,
    why="the 2,000 last calls of a rank with their frames are 4 MB; parsed JSON takes 20 x",
)


# ── lines and names, in characters ──

LINE: Final = Limit(most=65_536, what="characters in a line", why="a row of a table has tens to hundreds")
TOML_DOTS: Final = Limit(
    most=1_000, what="dots in a line that is no text", why="Python's reader takes quadratic time for a.b.c.d and so on"
)
TOML_DEPTH: Final = Limit(
    most=40, what="tables and arrays in one another", why="scenarios have 5; what walks a document calls itself"
)
KINETO_OPS: Final = Limit(
    most=200_000, what="kernels in the step of a rank", why="800 MB once simulated; a step of 70B has 100,000"
)
SETTING: Final = Limit(most=4_096, what="characters in a setting", why="a list of 100 devices has 700")
MESSAGE: Final = Limit(most=500, what="characters in a message", why="some lines of a terminal")
NAME: Final = Limit(most=256, what="characters in a name", why="names made here have up to 60")
TEXT: Final = Limit(most=4_096, what="characters in a text", why="sources and titles have up to 500")


# ── what a misspelt name is compared with ──

COMPARED_CHARACTERS: Final = 64  # difflib takes quadratic time in the length of names
COMPARED_NAMES: Final = 200  # and linear time in their number: those nearest in the alphabet are looked at

# ── schedules, once expanded ──


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleBudget:
    """What a schedule may mean once it is expanded, over all its roles."""

    calls: Limit
    ops: Limit
    operands: Limit


_CALLS_WHY = "no call has less than an op"
_OPS_WHY = "500 bytes and 20 us each, expanded and checked; a 1T model on 16 stages has 317,023"
_OPERANDS_WHY = "some 200 bytes each, expanded and checked; a 1T model on 16 stages has 1.1 million"
USUAL: Final = ScheduleBudget(
    calls=Limit(most=400_000, what="calls", why=_CALLS_WHY),
    ops=Limit(most=400_000, what="ops", why=_OPS_WHY),
    operands=Limit(most=2_000_000, what="operands", why=_OPERANDS_WHY),
)
LARGE: Final = ScheduleBudget(  # where --yes-large is given
    calls=Limit(most=4_000_000, what="calls", why=_CALLS_WHY),
    ops=Limit(most=4_000_000, what="ops", why="gigabytes and minutes: the user has agreed to that"),
    operands=Limit(most=20_000_000, what="operands", why="gigabytes and minutes: the user has agreed to that"),
)
VALUES: Final = Limit(
    most=2_000_000,
    what="commas",
    why="each separates values, of some 100 bytes once read; a 1T model on 16 stages: 8,000",
)
STORED_STEPS: Final = Limit(
    most=50_000,
    what="steps as they are stored",
    why="a 1T model on 16 stages stores under 2,000; folding them is compared",
)
OPERANDS_OF_OP: Final = Limit(
    most=200_000, what="operands of an op", why="an optimizer of 1,000 layers has 48 states in each of them"
)
MODEL_OPS: Final = Limit(
    most=20_000,
    what="distinct ops of the model",
    why="layers and stages share theirs: a GPT has 60, the largest 350; 8,000 where each of 128 layers has its own",
)
MODEL_OPERANDS: Final = Limit(
    most=256, what="tensors of one op of the model", why="ops made here touch up to 10 that they read and write"
)
ROLES: Final = Limit(
    most=1_000,
    what="roles",
    why="a role is a pipeline stage, which has at least one of the up to 1,000 layers of a scenario's model",
)
TENSORS_OF_ROLES: Final = Limit(
    most=2_000_000,
    what="tensors of all roles",
    why="every role is checked with every tensor, 1 us each; a pipeline of 1,000 stages has 108,000",
)
RANKS: Final = Limit(most=1 << 21, what="ranks", why="28 times Frontier; some arrays have an entry for every rank")
AXES: Final = Limit(most=16, what="axes", why="plans made here have up to 7")
DIMENSIONS: Final = Limit(most=16, what="dimensions", why="tensors made here have up to 4")
SIZE: Final = Limit(most=1 << 62, what="elements or bytes", why="what a whole number of 8 bytes holds")
EXTENT: Final = Limit(most=1 << 100, what="elements", why="products of sizes are made floats")
POSITION: Final = Limit(most=1 << 31, what="layers or micro-batches from here", why="calls count theirs in thousands")

# ── collectives as explicit transfers ──

TRANSFERS: Final = Limit(
    most=1_000_000, what="transfers", why="some 300 bytes each; a ring of 128 ranks in 8 channels has 260,096"
)

# ── scenarios ──

SIZES: Final = Limit(most=1_000, what="sizes", why="every one is simulated for every plan")
PLANS: Final = Limit(
    most=20_000, what="plans", why="every one is laid out; a search of thousands is what `tune` is for"
)
CASES: Final = Limit(most=50_000, what="plans at a size", why="every one is laid out as the scenario is read: 10 s")
ENTRIES: Final = Limit(most=100_000, what="entries", why="a perturbation of every device of Frontier and more")

# ── studies of many points ──

SWEEP_POINTS: Final = Limit(
    most=1_000_000, what="points", why="each takes 10 ms to minutes, and some 300 bytes while a study runs"
)
GOAL_FILE: Final = FileLimit(most_bytes=64 << 20, why="two numbers for each of a million points, 28 bytes a number")
SWEEP_DRAWN: Final = Limit(
    most=2_000, what="rows in a chart of a sweep", why="more hide each other; without a GPU these take seconds"
)

# ── machines and libraries ──

STEPS_APART: Final = Limit(most=100, what="steps", why="every one is simulated, and kept until the slowest is known")
NODES: Final = Limit(most=1 << 20, what="nodes", why="100 times Frontier; some arrays have an entry for every node")
DEVICES_OF_NODE: Final = Limit(most=128, what="devices", why="every pair of a node's devices has its route")
NICS_OF_NODE: Final = Limit(most=128, what="NICs", why="nodes have up to 16; every device looks for its nearest")
SWITCH_LEVELS: Final = Limit(most=32, what="levels of switches", why="networks have up to 5; a file may go in circles")
GROUPS: Final = Limit(most=2_048, what="groups", why="every pair of groups has a link: 4 million")
COMPUTE_UNITS: Final = Limit(most=1_000_000, what="compute units", why="devices have hundreds")
CHANNELS: Final = Limit(most=128, what="channels", why="NCCL's MAXCHANNELS is 64, RCCL's 128")
SLICES: Final = Limit(most=4_096, what="slices", why="messages of 4 GiB in slices of 1 MiB")
COUNT: Final = Limit(most=1 << 40, what="of it", why="counts become sizes and products of sizes")

LARGEST: Final = 1e30  # of any number of a machine, library or table: far beyond the meaningful, far from overflow
SMALLEST: Final = 1e-30  # of those above zero, which are divided by
LARGEST_SD: Final = 3.0  # of the logarithm of a time: a factor of 20 either way
LARGEST_S: Final = 1e9  # of one time: thirty years
