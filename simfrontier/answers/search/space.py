"""The space of plans for a model, a batch and a number of devices: partition lattice × grid × pipeline × micro-batch ×
checkpointing × routes × codecs, each plan with its table for a scenario.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

from simfrontier.answers.search.pins import FAMILIES, LossyPolicy, Pins, Value
from simfrontier.answers.search.states import StateSharding, point_on, points
from simfrontier.base.errors import InputError
from simfrontier.core.machine.stack import NONE as NO_STACK
from simfrontier.core.plan import CHUNKED_ORDERS, TensorOptions, batch_axes
from simfrontier.core.program import Mesh
from simfrontier.core.workload import USUAL_CROSS_ENTROPY, GptShape, num_blocks
from simfrontier.inputs.scenario import Case, Scenario, mesh_of, options_of

TUNED = "tuned"  # what a plan is called before it has a place
LONG, PIECE = 16_384, 8_192  # positions: of a sequence that is divided unasked, and of a rank's least piece of it
MOST_SEQUENCES = 32  # of a rank in a micro-batch that is tried unasked
Grid = Mapping[str, Value]
ORDER_WORDS = {"gpipe": "GPipe", "zb-h1": "ZB-H1", "zb-v": "ZB-V", "dualpipev": "DualPipeV"}
MOST_UNEVEN = 1.1  # layers of the fullest stage relative to the mean
PLAIN: Grid = {  # values where a grid does not say; of other dimensions 1
    "sequence_parallel": False,
    "order": "1f1b",
    "compression": "none",
    "cross_entropy": USUAL_CROSS_ENTROPY,
}
WITH_EXPERTS = ("ddp", "zero1", "zero2", "zero3")  # shardings of states where experts are divided
LACKED = {  # dimensions that a family does not have
    "zero": ("tensor", "expert", "context", "x", "y", "z", "pipeline", *PLAIN),
    "megatron": ("x", "y", "z"),
    "axonn": ("tensor", "expert", "context", "sequence_parallel", "order", "compression"),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """One plan of the space. `grid`: plan keys other than those of the data axes; `states`: sharding of states on the
    data axes; `stack`: name of the software stack, which leaves `capacity_bytes` per device to the plan's tensors.
    """

    family: str
    grid: Grid
    states: StateSharding
    micro_batch: int
    checkpointing: str
    case: Case = field(compare=False, repr=False)
    table: Mapping[str, Any] = field(compare=False, repr=False)
    stack: str
    capacity_bytes: float

    @cached_property
    def key(self) -> str:
        """The plan's table as one line: the same for the same plan."""
        return json.dumps(self.table, sort_keys=True)

    @cached_property
    def core(self) -> tuple[object, ...]:
        """Key of what determines the best possible speed: everything except the sharding of states."""
        kernel = self.value("softmax")
        return self.family, self.stack, *sorted(self.grid.items()), self.micro_batch, self.checkpointing, kernel

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Candidate) and self.key == other.key

    def value(self, dimension: str) -> Value:
        """Return the plan's value of a dimension (`pins.DIMENSIONS`)."""
        match dimension:
            case "family" | "micro_batch" | "checkpointing":
                return getattr(self, dimension)  # type: ignore[no-any-return]
            case "states":
                return self.states.plain_name
            case "copy" | "route" | "codec":
                return getattr(self.states, dimension)  # type: ignore[no-any-return]
            case "softmax":
                return self.case.softmax
        return self.grid.get(dimension, PLAIN.get(dimension, 1))

    @property
    def _sizes(self) -> dict[str, Value]:
        """Grid dimensions of the plan with more than one rank."""
        return {key: n for key, n in self.grid.items() if not isinstance(n, bool | str) and n > 1}

    @property
    def kind(self) -> tuple[str, ...]:
        """The plan's family with the names of its grid dimensions larger than 1 or, without any, its state sharding."""
        return (self.family, *(sorted(self._sizes) or (self.states.plain_name,)))

    @property
    def layout(self) -> str:
        """Grid and state sharding in words, without batch settings: `tensor 8 × 16 stages, zero1`."""
        grid = " × ".join(f"{n} stages" if key == "pipeline" else f"{key} {n}" for key, n in self._sizes.items())
        more = ["sequence-parallel"] if self.grid.get("sequence_parallel") else []
        more += [ORDER_WORDS.get(str(each), str(each)) for each in (self.grid.get("order"),) if each]
        more += [str(self.grid[key]) for key in ("compression", "cross_entropy") if key in self.grid]
        return ", ".join([*([f"{self.family} {grid}"] if grid else []), *more, self.states.name])

    @property
    def name(self) -> str:
        """The plan in words."""
        return f"{self.layout}, {self.of_the_batch}"

    @property
    def of_the_batch(self) -> str:
        """Settings of the candidate that the layout leaves out, in words: `micro-batch 2, recomputing`."""
        words = {"full": "recomputing", "selective": "recomputing attention", "none": "keeping activations"}
        recomputed = words[self.checkpointing]
        kernel = "" if self.case.softmax == "fused" else f", softmax {self.case.softmax}"
        return f"micro-batch {self.micro_batch}, {recomputed}{kernel}"


@dataclass
class Space:
    """All plans of a scenario at a size that the user's `pins` allow, with `batch` sequences per step; plans that lose
    precision only as far as `loss` allows. `refused` collects the reasons why plans cannot run.
    """

    scenario: Scenario
    size: int
    batch: int
    pins: Pins
    loss: LossyPolicy
    refused: list[str] = field(default_factory=list)
    _of_family: dict[str, Scenario] = field(default_factory=dict)

    def candidates(self) -> Iterator[Candidate]:
        """Yield the plans that divide devices, model and batch, from the simplest to the most partitioned."""
        checkpointings = [str(each) for each in self.pins.of("checkpointing", ("full", "none"))]
        kernels = [{"softmax": str(kernel)} for kernel in self.pins.of("softmax", ())] or [{}]  # {}: as the model says
        for family, grid, mesh, states in self._layouts():
            keys = states.table(mesh, mesh.names if family == "zero" else batch_axes(mesh))
            if family != "zero":  # beside a grid a family without further settings is its name
                keys = {**self._keys(family, grid), "data": keys["family"] if len(keys) == 1 else keys}
            options = options_of(TUNED, keys)
            ranks = options.batch_ranks(mesh) if isinstance(options, TensorOptions) else mesh.num_ranks
            for micro, checkpointing, more in product(self._micro_batches(ranks), checkpointings, kernels):
                table = {**keys, "micro_batch": micro, "checkpointing": checkpointing, **more}
                here = self._run_by(str(table["family"]))
                if here.stack is not None:
                    off = {"sequence_parallel": False} if family == "megatron" else {}  # a grid says it where it is on
                    table = here.stack.plan({**off, **table})
                case = self._tried(here, table)
                if case is not None:
                    yield Candidate(
                        family=family,
                        grid=grid,
                        states=states,
                        micro_batch=micro,
                        checkpointing=checkpointing,
                        case=case,
                        table=table,
                        stack=NO_STACK if here.stack is None else here.stack.name,
                        capacity_bytes=here.machine.device.hbm_bytes,
                    )

    def _layouts(self) -> Iterator[tuple[str, Grid, Mesh, StateSharding]]:
        shape = self.scenario.at(self.size).shape
        without = {"axonn"} if isinstance(shape, GptShape) and shape.num_experts else set()
        for family in self.pins.of("family", [each for each in FAMILIES if each not in without]):
            for grid in self._grids(str(family)):
                mesh = self._mesh(str(family), grid)
                if mesh is None:
                    continue
                data = mesh.names if family == "zero" else batch_axes(mesh)
                stages = grid.get("pipeline", 1) != 1
                for states in points(mesh, data, codecs=self.loss.codecs(), stages=stages):
                    if grid.get("compression") and states.codec != "plain":
                        continue  # one of the two says how gradients are sent
                    if "expert" in grid and states.plain_name not in WITH_EXPERTS:
                        continue
                    if self._belongs(str(family), states) and self._allows(str(family), states, mesh):
                        yield str(family), grid, mesh, states

    def _belongs(self, family: str, states: StateSharding) -> bool:
        """Return whether a plan family supports these state shardings. Families with a grid use routes and weight
        copies only if they are pinned; AxoNN shards weights over its Z axis, not over the data axes.
        """
        asked = self.pins.values
        if family != "zero" and states.copy and True not in asked.get("copy", ()):
            return False
        if family != "zero" and states.route != "flat" and states.route not in asked.get("route", ()):
            return False
        return family != "axonn" or (states.weight, states.gradient) == ("none", "none")

    def _allows(self, family: str, states: StateSharding, mesh: Mesh) -> bool:
        """Return whether the pins allow a state sharding on the data axes. Without a grid, a name stands for its point
        on this mesh: hsdp on one node is zero3."""
        pins = self.pins
        named = pins.allow("states", states.point) or pins.allow("states", states.plain_name)
        if family == "zero":
            named |= states.point in {point_on(str(name), mesh, mesh.names) for name in pins.of("states", ())}
        moves = pins.allow("copy", states.copy) and pins.allow("route", states.route)
        return named and moves and pins.allow("codec", states.codec)

    # ── grids ──

    def _grids(self, family: str) -> Iterator[Grid]:
        """Yield the grids of a family; pins of dimensions that it does not have may exclude it."""
        if not all(self.pins.allow(name, PLAIN.get(name, 1)) for name in LACKED[family]):
            return
        if family == "zero":
            yield {}
        elif family == "megatron":
            yield from self._megatron_grids()
        else:
            yield from self._axonn_grids()

    def _megatron_grids(self) -> Iterator[Grid]:
        pins = self.pins
        for tensor, pipeline, expert, context in product(
            pins.numbers("tensor", self._few()),
            pins.numbers("pipeline", self._depths()),
            pins.numbers("expert", self._experts()),
            pins.numbers("context", self._contexts()),
        ):
            ranks = tensor * pipeline * context
            if ranks * expert == 1 or ranks > self.size:
                name = "tensor × pipeline" + " × context" * (context > 1)
                self.refused.append(f"{name} = {ranks}: allowed with megatron: 2 to {self.size:,} devices")
                continue
            inside = _beside(tensor, expert, context)
            for order, sequence, policy, way in product(
                pins.of("order", ("1f1b",)) if pipeline > 1 else ("1f1b",),
                [cut for cut in (False, True) if cut == (tensor > 1) or (tensor > 1 and expert == 1)],
                self.loss.compressions(pins),
                pins.of("cross_entropy", (USUAL_CROSS_ENTROPY,)),
            ):
                if pins.allow("order", order) and pins.allow("sequence_parallel", sequence):
                    more = {"sequence_parallel": sequence, "order": order, "compression": policy, "cross_entropy": way}
                    yield {"tensor": tensor, "pipeline": pipeline, **inside, **_unlike_plain(more)}

    def _axonn_grids(self) -> Iterator[Grid]:
        pins, few = self.pins, self._few()
        storage = sorted({*(n for n in _powers(self.size) if self.size % n == 0), *_rests(self.size)})
        is_asked = {"x", "y"} & set(pins.values)
        for x, y, z, pipeline, way in product(
            pins.numbers("x", few),
            pins.numbers("y", few),
            pins.numbers("z", storage),
            pins.numbers("pipeline", (1,)),
            pins.of("cross_entropy", (USUAL_CROSS_ENTROPY,)),
        ):
            ranks = x * y * z * pipeline
            if (is_asked or x * y <= max(few)) and x * y * z > 1 and ranks <= self.size:
                stages = {"pipeline": pipeline} if pipeline > 1 else {}
                yield {"x": x, "y": y, "z": z, **stages, **_unlike_plain({"cross_entropy": way})}
            elif {"x", "y", "z", "pipeline"} & set(pins.values):
                self.refused.append(f"x × y × z × pipeline = {ranks}: allowed with axonn: 2 to {self.size:,} devices")

    def _experts(self) -> tuple[int, ...]:
        """Return the numbers of ranks among which experts are divided: 1, and powers of two, from half a node on, that
        divide the blocks of experts with equally many rows. Fewer ranks are as many calls for less room."""
        shape = self.scenario.at(self.size).shape
        blocks = shape.routed_rows[0] if isinstance(shape, GptShape) and shape.num_experts else 1
        least = min(blocks, self.scenario.machine.devices_per_node) // 2
        return tuple(n for n in _powers(min(blocks, self.size)) if blocks % n == 0 and (n == 1 or n >= least))

    def _contexts(self) -> tuple[int, ...]:
        """Return the numbers of ranks among which the sequence is divided: 1, and for longer sequences than
        `LONG` powers of two up to pieces of `PIECE` positions."""
        length = self.scenario.at(self.size).shape.sequence
        return _powers(length // PIECE) if length > LONG else (1,)

    def _few(self) -> tuple[int, ...]:
        """Return the possible numbers of ranks that share a matrix product: powers of two up to the devices of two
        nodes, or up to 8 if that is more.
        """
        return _powers(max(8, 2 * self.scenario.machine.devices_per_node))

    def _keys(self, family: str, grid: Grid) -> dict[str, Value]:
        """Return the keys of a grid in a plan's table: orders that have several chunks on a stage get two, and stages
        that do not divide the layers are as even as these allow."""
        chunks = {"chunks": 2} if grid.get("order") in CHUNKED_ORDERS else {}
        runs = int(grid.get("pipeline", 1)) * chunks.get("chunks", 1)
        uneven = {"layers": "even"} if num_blocks(self.scenario.at(self.size).shape) % runs else {}
        return {"family": family, **grid, **chunks, **uneven}

    def _depths(self) -> list[int]:
        """Return the numbers of stages: those that divide devices and layers, and, unless 4 divides the layers, powers
        of two with at most a tenth more layers on the fullest stage than on the mean one."""
        layers = num_blocks(self.scenario.at(self.size).shape)
        uneven = {n for n in _powers(layers) if layers % 4 and -(-layers // n) * n <= MOST_UNEVEN * layers}
        return [n for n in range(1, layers + 1) if (layers % n == 0 or n in uneven) and self.size % n == 0]

    def _mesh(self, family: str, grid: Grid) -> Mesh | None:
        table = self._keys(family, grid) if family != "zero" else {"family": "ddp"}
        try:
            options = options_of(TUNED, table)
            if isinstance(options, TensorOptions):
                options.refuse_shape(self.scenario.at(self.size).shape)
            return mesh_of(options, self.size, self.scenario.file.mesh, self.scenario.machine)
        except InputError as error:
            self.refused.append(error.below(("plans", TUNED)))
            return None

    # ── the batch ──

    def _micro_batches(self, ranks: int) -> tuple[int, ...]:
        if self.batch % ranks:
            self.refused.append(f"{self.batch} sequences of a step do not divide over {ranks} data-parallel ranks")
            return ()
        each = self.batch // ranks
        return self.pins.numbers("micro_batch", [n for n in _powers(MOST_SEQUENCES) if each % n == 0])

    def _run_by(self, family: str) -> Scenario:
        """Return the scenario with the software stack of a plan family."""
        if family not in self._of_family:
            self._of_family[family] = self.scenario.at(self.size).of_family(family)
        return self._of_family[family]

    def _tried(self, here: Scenario, table: Mapping[str, Any]) -> Case | None:
        try:
            return here.case_with(TUNED, options_of(TUNED, table), self.size)
        except InputError as error:
            self.refused.append(error.below(("plans", TUNED)))
            return None


def _beside(tensor: int, expert: int, context: int) -> dict[str, Value]:
    """Return the keys of a grid for experts and for the sequence: whole experts where tensor-parallel ranks allow it,
    and keys and values around a ring, as most recipes have them."""
    out: dict[str, Value] = {}
    if expert > 1:
        out["expert"] = expert
    if expert > 1 and tensor > 1 and expert % (tensor * context) == 0:
        out["expert_tensor"] = 1
    if context > 1:
        out |= {"context": context, "context_by": "ring"}
    return out


def _unlike_plain(grid: Grid) -> dict[str, Value]:
    return {key: value for key, value in grid.items() if value != PLAIN[key]}


def _rests(size: int) -> list[int]:
    """Return a number and its even quotients by powers of two: 384, 192, 96, 48, 24, … for 384."""
    return [size // power for power in _powers(size) if (size % power == 0 and size // power % 2 == 0) or power == 1]


def _powers(most: int) -> tuple[int, ...]:
    return tuple(2**n for n in range(most.bit_length()) if 2**n <= most)
