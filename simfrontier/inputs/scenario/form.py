"""Schema of a scenario file: its tables and keys, and the allowed values of each key (pydantic, strict, no extra
keys)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from simfrontier.base.errors import InputError
from simfrontier.base.extras import added
from simfrontier.base.io import Names, Strict, Text, extended
from simfrontier.base.limits import COUNT, RANKS
from simfrontier.core.collectives import carriers
from simfrontier.core.machine import HEALTHY, NarrowProducts, NarrowType, NodePlacement, Perturbation
from simfrontier.core.plan import Engine
from simfrontier.core.program import LIBRARY, CollectiveKind
from simfrontier.core.workload import Attention, Checkpointing, LoraPart, Norm, Optimizer, Positions, Router, Softmax
from simfrontier.inputs.scenario.batches import tokens_of


class TuneTable(Strict):
    """Search by `simfrontier tune`. `pin`: fixed values of search dimensions; `lossy`: whether lossy codecs are
    allowed; `max_error`: the largest allowed error bound of codecs and compression, relative to the largest value in a
    block; `simulate`: the number of best plans to simulate (default: 5 % of the plans that fit into memory, at least 5,
    at most 20).

    Extras add keys by their module `tune_keys`.
    """

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
Size = Annotated[int, Field(ge=1, le=2**22)]  # of one dimension: the longest sequences that are trained
Count = Annotated[int, Field(ge=1, le=1000)]  # of what is laid out one by one: layers, micro-batches of a step
NotNegative = Annotated[int, Field(ge=0, le=COUNT.most)]
Lagging = Annotated[float, Field(gt=0, le=1)]  # of a rate that a thing has left
Name = Annotated[str, Field(min_length=1, pattern=r"^[^\x00-\x1f]+$")]  # may be a path
NodeNumbers = Annotated[list[NotNegative], Field(min_length=1)]
NodeNames = Annotated[str, Field(min_length=1)]
SizeText = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,8}$")]  # a number of devices, as a key


Tokens = Annotated[str, Field(pattern=r"^[0-9.][0-9.,]* ?[kKmM]?( ?(tokens|sequences))?$|^usual$")]


# What may carry a kind of call: an algorithm of some library, or what the library takes
Ways = str | list[str]
GatherWays = Annotated[Ways, Names(LIBRARY, partial(carriers, "all_gather"), or_list=True)]
ScatterWays = Annotated[Ways, Names(LIBRARY, partial(carriers, "reduce_scatter"), or_list=True)]
ReduceWays = Annotated[Ways, Names(LIBRARY, partial(carriers, "all_reduce"), or_list=True)]


class MachineTable(Strict):
    """Name of the machine, and numbers of the machine's file (dotted keys) that this scenario overrides."""

    name: Name
    overrides: dict[str, float] = Field(default_factory=dict)


class AlgorithmsTable(Strict):
    """Algorithms that the library uses for each kind of collective, unless a plan sets one. If several are listed, the
    one that is fastest in isolation is used."""

    all_gather: GatherWays = LIBRARY
    reduce_scatter: ScatterWays = LIBRARY
    all_reduce: ReduceWays = LIBRARY

    def chosen(self) -> dict[CollectiveKind, tuple[str, ...]]:
        """Algorithms by kind of collective, without the kinds that are left to the library. Raises InputError for a
        list in which an algorithm and the library's own choice are mixed."""
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
    """Name of the collective library (default: that of the machine), a calibration of machine and library, algorithms
    for kinds of collectives, and numbers of the library's file that this scenario overrides."""

    name: Name | None = None
    calibration: Name | None = None  # a file of measured numbers and times
    algorithms: AlgorithmsTable = AlgorithmsTable()
    overrides: dict[str, float] = Field(default_factory=dict)


class MeshTable(Strict):
    """Division of the ranks into nodes and packages as the plans see it (default: that of the machine's devices)."""

    devices_per_node: Positive | None = None
    devices_per_package: Positive | None = None


class ModelTable(Strict):
    """A named model, or a user-defined shape (`name` is then free): a GPT (heads, vocabulary, sequence, and deviations
    from the standard GPT: see GptShape) or an MLP (inputs, classes). Further keys: whether attention writes its scores
    to memory (`plain`) or not (`fused`); the kernel of softmaxes over rows in memory; checkpointing; and the data type
    of weights, activations and gradients."""

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
    head_dim: Size | None = None
    q_rank: Size | None = None
    kv_rank: Size | None = None
    nope_features: Size | None = None
    rope_features: Size | None = None
    value_features: Size | None = None
    qk_norm: bool | None = None
    norm: Norm | None = None
    biases: bool | None = None
    qkv_biases: bool | None = None
    positions: Positions | None = None
    embedding_norm: bool | None = None
    causal: bool | None = None
    vocabulary_multiple: Size | None = None
    dropout: bool | None = None
    experts: Count | None = None
    experts_per_token: Count | None = None
    expert_ffn: Size | None = None
    shared_ffn: NotNegative | None = None
    dense_layers: NotNegative | None = None
    expert_every: Positive | None = None
    window: Size | None = None
    full_every: Positive | None = None
    capacity: Annotated[float, Field(ge=1, le=64)] | None = None
    router: Router | None = None
    expert_groups: Count | None = None
    groups_per_token: Count | None = None
    expert_skew: Annotated[float, Field(ge=1, le=64)] | None = None
    lora_rank: Size | None = None
    lora_of: tuple[LoraPart, ...] | None = None
    mtp_layers: Annotated[int, Field(ge=0, le=8)] | None = None
    expert_clamp: bool | None = None
    attention: Attention = "plain"
    softmax: Softmax = "fused"
    checkpointing: Checkpointing = "full"
    checkpoint_every: Size = 1  # of the layers that `full` checkpoints: those whose numbers divide by it
    precision: Literal["fp16", "bf16", "fp32", "fp64"] = "fp16"
    gradients: Literal["fp16", "bf16", "fp32", "fp64"] | None = None  # added up in; the model's own
    master: Literal["fp16", "bf16", "fp32", "fp64"] | None = None  # weights that the optimizer steps; the wide type
    moments: Literal["bf16", "fp32", "fp64"] | None = None  # each of the optimizer's two; the wide type
    optimizer: Optimizer = "adam"
    linear_precision: NarrowType | None = None  # of the products of the layers' linear modules, where it is another one
    narrow_products: NarrowProducts = "all"  # those that have it


class TrainingTable(Strict):
    """Sequences per device in a micro-batch, and micro-batches per optimizer step; or, with `batch`, the number of
    sequences per step over all devices, or of their tokens as text, from which the number of micro-batches follows."""

    micro_batch: Size = 1
    grad_accum: Count = 1
    batch: Size | Tokens | None = None

    @property
    def sequences(self) -> int | None:
        """Sequences of a step, if `batch` is their number."""
        return self.batch if isinstance(self.batch, int) else None

    @property
    def tokens(self) -> float | None:
        """Tokens of a step, if `batch` is a text that says them."""
        return tokens_of(self.batch) if isinstance(self.batch, str) else None

    def about(self, sequence: int) -> int | None:
        """Return the sequences of a step, to the nearest number if `batch` is of tokens; None without `batch`."""
        return self.sequences if self.tokens is None else max(1, round(self.tokens / sequence))


class RunTable(Strict):
    """Sizes, fidelity, placement of ranks (`block`, as Slurm does, or `cyclic` over the nodes), and the number of
    training steps to simulate."""

    devices: Annotated[list[Ranks], Field(min_length=1, max_length=SIZES)]
    fidelity: Literal["analytic", "flow", "chunk"] = "flow"
    placement: Literal["block", "cyclic"] = "block"
    steps: Positive = 1


class NodesTable(Strict):
    """Nodes of the machine that the job gets, and their location in the machine's network."""

    placement: NodePlacement = "contiguous"
    seed: NotNegative = 1
    list: NodeNumbers | NodeNames | None = None
    topology: Name | None = None
    group_level: Annotated[int, Field(ge=0, le=9)] = 0


class UncertaintyTable(Strict):
    """Number of samples of a step for its error bars (0: no error bars), and the seed of the samples."""

    samples: Annotated[int, Field(ge=0, le=100_000)] = 200
    seed: NotNegative = 1


class Variation(Strict):
    """One uncertain setting: its dotted key in this file, and the values to try one at a time, with all plans alike."""

    key: Text
    label: Text
    values: Annotated[list[str | int | float | bool], Field(min_length=1)]


class PublishedTable(Strict):
    """Published figures that the report shows next to the prediction: TFLOPS per device relative to those of the first
    plan, fraction of the peak by plan and size (hardware operations, including recomputation), and scaling
    efficiency."""

    source: Text
    ratios: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    percent_of_peak: dict[str, dict[SizeText, Annotated[float, Field(gt=0, le=100)]]] = Field(default_factory=dict)
    efficiency: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    efficiency_base_devices: Positive | None = None


class RequiredTable(Strict):
    """A number of the machine or library, in [0.01, 1], for which to solve so that the published ratios result; other
    settings are fixed as in `given`."""

    key: Text
    label: Text
    given: dict[str, str | int | float | bool] = Field(default_factory=dict)


class SensitivityTable(Strict):
    """Sensitivity of the ratio of two plans, or of the rate of one plan, to uncertain settings, at one size or at
    several."""

    devices: Positive | Annotated[list[Positive], Field(min_length=1)]
    plans: Annotated[list[Text], Field(min_length=1)]
    vary: list[Variation]
    required: list[RequiredTable] = Field(default_factory=list)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes at which the settings are varied."""
        return (self.devices,) if isinstance(self.devices, int) else tuple(self.devices)


class NeighbourTable(Strict):
    """A job of another scenario on other nodes of the machine, simulated together with this scenario's job: the
    scenario's file, one of its plans (default: the first), and a size (default: the largest)."""

    scenario: Name
    plan: Text | None = None
    devices: Positive | None = None


class GoodputTable(Strict):
    """Failures and checkpoints of a long training: a file of failures, the file system, when checkpoints are saved, the
    costs of an interruption, and spare nodes. The user states these numbers: machines differ too much for defaults.

    `held_share`: fraction of a checkpoint's writing time that blocks the training (less than 1 if writing overlaps with
    the next steps); `restart_s`: time from an interruption until the training continues, without reading the
    checkpoint; `repair_s`: time until a failed node is back; `fewer_nodes`: whether to evaluate also going on with
    fewer nodes if no spare node is left. `trainings` trainings of `interruptions` interruptions each are simulated at
    random.
    """

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
    """A perturbation (degraded components), and its label."""

    label: Text
    perturbation: Perturbation


class SlowdownTable(Strict):
    """Slowdown of each plan by degraded components, at one size (default: the largest): the step time in each of the
    cases relative to a healthy step, and the same with any one device at `device_factor` of its speed, and with any one
    link at `link_factor` of its capacity (a factor of 1 means no slowdown, and is not simulated)."""

    devices: Ranks | None = None
    device_factor: Lagging = 0.8
    link_factor: Lagging = 0.5
    cases: Annotated[list[TroubleCase], Field(max_length=PLANS)] = Field(default_factory=list)


class ScenarioFile(Strict):
    """A scenario file, without the tables that extras add."""

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
