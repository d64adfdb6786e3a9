"""The form of a scenario file: what tables and keys it has and what each may hold (pydantic, strict, nothing extra)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from simfrontier.base.errors import InputError
from simfrontier.base.extras import added
from simfrontier.base.io import Names, Strict, Text, extended
from simfrontier.base.limits import COUNT, RANKS
from simfrontier.core.collectives import carriers
from simfrontier.core.machine import HEALTHY, NodePlacement, Perturbation
from simfrontier.core.plan import Engine
from simfrontier.core.program import LIBRARY, CollectiveKind
from simfrontier.core.workload import Attention, Checkpointing, Norm, Optimizer, Positions, Softmax


class TuneTable(Strict):
    """`pin`: fixed values of dimensions; `lossy`: whether lossy codecs are allowed; `max_error`: the largest allowed
    error bound of codecs and compression, relative to the largest value in a block; `simulate`: the number of best
    plans to simulate (default: 5 % of those that fit, at least 5, at most 20).

    Extras add keys by their module `tune_keys`."""

    pin: dict[str, int | str | bool | list[int | str | bool]] = Field(default_factory=dict)
    lossy: bool = False
    max_error: Annotated[float, Field(ge=0, lt=1)] | None = None
    simulate: Annotated[int, Field(ge=1, le=1000)] | None = None


if TYPE_CHECKING:
    Tune = TuneTable
else:
    Tune = extended(TuneTable, added("tune_keys", type), "Tune", __name__)

PLANS: Final = 20_000  # every one is laid out; a search of thousands is what `tune` is for

SIZES: Final = 1_000  # every one is simulated for every plan

Positive = Annotated[int, Field(ge=1, le=COUNT.most)]
Ranks = Annotated[int, Field(ge=1, le=RANKS.most)]
Size = Annotated[int, Field(ge=1, le=2**20)]  # of one dimension: far beyond what is trained
Count = Annotated[int, Field(ge=1, le=1000)]  # of what is laid out one by one: layers, micro-batches of a step
NotNegative = Annotated[int, Field(ge=0, le=COUNT.most)]
Lagging = Annotated[float, Field(gt=0, le=1)]  # of a rate that a thing has left
Name = Annotated[str, Field(min_length=1, pattern=r"^[^\x00-\x1f]+$")]  # may be a path
NodeNumbers = Annotated[list[NotNegative], Field(min_length=1)]
NodeNames = Annotated[str, Field(min_length=1)]
SizeText = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,8}$")]  # a number of devices, as a key


# What may carry a kind of call: an algorithm of some library, or what the library takes
Ways = str | list[str]
GatherWays = Annotated[Ways, Names(LIBRARY, partial(carriers, "all_gather"), or_list=True)]
ScatterWays = Annotated[Ways, Names(LIBRARY, partial(carriers, "reduce_scatter"), or_list=True)]
ReduceWays = Annotated[Ways, Names(LIBRARY, partial(carriers, "all_reduce"), or_list=True)]


class MachineTable(Strict):
    """Which machine, and numbers of its file (dotted keys) that this scenario sets otherwise."""

    name: Name
    overrides: dict[str, float] = Field(default_factory=dict)


class AlgorithmsTable(Strict):
    """By which algorithms the library carries a kind of call, wherever no plan says it: of several the one that is
    fastest alone."""

    all_gather: GatherWays = LIBRARY
    reduce_scatter: ScatterWays = LIBRARY
    all_reduce: ReduceWays = LIBRARY

    def chosen(self) -> dict[CollectiveKind, tuple[str, ...]]:
        """The algorithms of the kinds of calls that are not left to the library. Raises InputError for a list that
        leaves some to it."""
        named: dict[CollectiveKind, Ways] = {
            "all_gather": self.all_gather,
            "reduce_scatter": self.reduce_scatter,
            "all_reduce": self.all_reduce,
        }
        lists = {kind: (names,) if isinstance(names, str) else tuple(names) for kind, names in named.items()}
        for kind, names in lists.items():
            if LIBRARY in names and names != (LIBRARY,):
                raise InputError(f'"{LIBRARY}" leaves all to the library; allowed: "{LIBRARY}" alone', key=(kind,))
        return {kind: names for kind, names in lists.items() if names != (LIBRARY,)}


class LibraryTable(Strict):
    """Which collective library (by default the machine's), a calibration of machine and library, algorithms of kinds of
    calls, and numbers of the library's file that this scenario sets otherwise."""

    name: Name | None = None
    calibration: Name | None = None  # a file of measured numbers and times
    algorithms: AlgorithmsTable = AlgorithmsTable()
    overrides: dict[str, float] = Field(default_factory=dict)


class MeshTable(Strict):
    """How ranks are cut into nodes and packages for the plans (default: as the machine's devices are)."""

    devices_per_node: Positive | None = None
    devices_per_package: Positive | None = None


class ModelTable(Strict):
    """A named model, or a shape of one's own (`name` is then free): a GPT (heads, vocabulary, sequence; and in what it
    differs from the usual one: GptShape) or an MLP (inputs, classes); whether attention keeps its scores in memory
    (`plain`) or to itself (`fused`); the kernel of softmaxes over rows in memory; checkpointing; and the type of
    weights, activations and gradients."""

    name: Text
    num_layers: Count | None = None
    hidden: Size | None = None
    heads: Size | None = None
    vocabulary: Size | None = None
    sequence: Size | None = None
    inputs: Size | None = None
    classes: Size | None = None
    residual: Literal["parallel", "sequential"] | None = None
    tied: bool | None = None
    ffn_hidden: Size | None = None
    gated: bool | None = None
    kv_heads: Size | None = None
    norm: Norm | None = None
    biases: bool | None = None
    positions: Positions | None = None
    embedding_norm: bool | None = None
    causal: bool | None = None
    vocabulary_multiple: Size | None = None
    dropout: bool | None = None
    attention: Attention = "plain"
    softmax: Softmax = "fused"
    checkpointing: Checkpointing = "full"
    checkpoint_every: Size = 1  # of the layers that `full` checkpoints: those whose numbers divide by it
    precision: Literal["fp16", "bf16", "fp32", "fp64"] = "fp16"
    gradients: Literal["fp16", "bf16", "fp32", "fp64"] | None = None  # added up in; the model's own
    master: Literal["fp16", "bf16", "fp32", "fp64"] | None = None  # weights that the optimizer steps; the wide type
    moments: Literal["bf16", "fp32", "fp64"] | None = None  # each of the optimizer's two; the wide type
    optimizer: Optimizer = "adam"
    linear_precision: Literal["fp8"] | None = None  # of the products of linear modules, where it is another one


class TrainingTable(Strict):
    """Sequences of one device in one micro-batch, and micro-batches of one optimizer step; or, with `batch`, the
    sequences of one step over all devices, of which the micro-batches of a step follow."""

    micro_batch: Size = 1
    grad_accum: Count = 1
    batch: Size | None = None


class RunTable(Strict):
    """Sizes, fidelity, how ranks are placed (`block`, as Slurm does, or `cyclic` over the nodes), and how many steps of
    the training are looked at."""

    devices: Annotated[list[Ranks], Field(min_length=1, max_length=SIZES)]
    fidelity: Literal["analytic", "flow", "chunk"] = "flow"
    placement: Literal["block", "cyclic"] = "block"
    steps: Positive = 1


class NodesTable(Strict):
    """Which nodes of the machine the job gets, and where they lie in its network."""

    placement: NodePlacement = "contiguous"
    seed: NotNegative = 1
    list: NodeNumbers | NodeNames | None = None
    topology: Name | None = None
    group_level: Annotated[int, Field(ge=0, le=9)] = 0


class UncertaintyTable(Strict):
    """How often a step is sampled for its error bars (0: not at all), and the seed of the samples."""

    samples: Annotated[int, Field(ge=0, le=100_000)] = 200
    seed: NotNegative = 1


class Variation(Strict):
    """One unknown setting: its dotted key in this file, and the values to try one at a time, for all plans alike."""

    key: Text
    label: Text
    values: Annotated[list[str | int | float | bool], Field(min_length=1)]


class PublishedTable(Strict):
    """Published figures that the page sets beside the prediction: TFLOPS per device relative to the first plan's, the
    share of the peak that they are by plan and size (hardware operations, recomputed ones included), and scaling
    efficiency."""

    source: Text
    ratios: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    percent_of_peak: dict[str, dict[SizeText, Annotated[float, Field(gt=0, le=100)]]] = Field(default_factory=dict)
    efficiency: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    efficiency_base_devices: Positive | None = None


class RequiredTable(Strict):
    """A number of machine or library in [0.01, 1] to solve for the published ratios; other settings as `given`."""

    key: Text
    label: Text
    given: dict[str, str | int | float | bool] = Field(default_factory=dict)


class SensitivityTable(Strict):
    """How much the ratio of plans, or the rate of one, depends on what is unknown, at one size or at several."""

    devices: Positive | Annotated[list[Positive], Field(min_length=1)]
    plans: Annotated[list[Text], Field(min_length=1)]
    vary: list[Variation]
    required: list[RequiredTable] = Field(default_factory=list)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes at which settings are varied."""
        return (self.devices,) if isinstance(self.devices, int) else tuple(self.devices)


class NeighbourTable(Strict):
    """Another scenario's job on other nodes of the machine, which is simulated with this one: its file, one of its
    plans (by default the first), and a size (by default its largest)."""

    scenario: Name
    plan: Text | None = None
    devices: Positive | None = None


class GoodputTable(Strict):
    """What a long training suffers and how it goes on: a file of failures, the file system, when it is saved, what an
    interruption costs, and spare nodes. Numbers are the user's: machines are too different for defaults.

    `held_share`: of a checkpoint's writing, what holds training up (less where it is written beside the next steps);
    `restart_s`: from an interruption until training goes on, but for reading the checkpoint; `repair_s`: until a
    broken node is back; `fewer_nodes`: whether to go on with fewer nodes where no spare one is left is looked at, too.
    `trainings` of so many `interruptions` each are played at random."""

    failures: Name
    write_bytes_per_s: Annotated[float, Field(ge=1.0)]
    read_bytes_per_s: Annotated[float, Field(ge=1.0)] | None = None  # as it writes
    interval: Literal["young", "daly", "best"] | Annotated[float, Field(gt=0, le=1e9)] = "best"  # a rule, or seconds
    held_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    restart_s: Annotated[float, Field(ge=0, le=1e9)]
    repair_s: Annotated[float, Field(ge=0, le=1e9)]
    spare_nodes: Annotated[int, Field(ge=0, le=10_000)] = 0
    fewer_nodes: bool = True
    trainings: Annotated[int, Field(ge=2, le=100_000)] = 400
    interruptions: Annotated[int, Field(ge=100, le=100_000)] = 2000
    seed: NotNegative = 1


class TroubleCase(Strict):
    """Something that is wrong, and what it is called."""

    label: Text
    perturbation: Perturbation


class SlowdownTable(Strict):
    """What trouble costs, by plan, at one size (default: the largest): a step in each of the cases over a healthy one;
    and the same with any one device at `device_factor` of its speed, and with any one link at `link_factor` of its
    capacity (at 1 nothing lags, and nothing is simulated)."""

    devices: Ranks | None = None
    device_factor: Lagging = 0.8
    link_factor: Lagging = 0.5
    cases: Annotated[list[TroubleCase], Field(max_length=PLANS)] = Field(default_factory=list)


class ScenarioFile(Strict):
    """A scenario file, but for tables that extras add."""

    model_config = ConfigDict(defer_build=True)  # FileForm is built

    name: Text
    title: Text
    machine: MachineTable
    library: LibraryTable = LibraryTable()
    stack: Name | None = None  # what engine and kernels do; None: by plan, what people run it with
    mesh: MeshTable = MeshTable()
    model: ModelTable
    training: TrainingTable = TrainingTable()
    run: RunTable
    engine: Engine = Engine()  # defaults are DeepSpeed's
    plans: Annotated[dict[str, dict[str, Any]], Field(min_length=1, max_length=PLANS)]
    at: dict[str, dict[str, dict[str, Any]]] = Field(default_factory=dict)  # tables that a size puts over these
    nodes: NodesTable = NodesTable()
    perturbation: Perturbation = HEALTHY
    neighbour: NeighbourTable | None = None
    goodput: GoodputTable | None = None
    uncertainty: UncertaintyTable = UncertaintyTable()
    tune: Tune = Tune()
    sensitivity: SensitivityTable | None = None
    slowdown: SlowdownTable | None = None
    published: PublishedTable | None = None
