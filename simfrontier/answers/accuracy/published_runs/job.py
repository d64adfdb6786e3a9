"""The scenario of a published run: the keys set by the rules, and everything that follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from statistics import NormalDist
from typing import Any, Final

from simfrontier.answers.accuracy.published_runs.device_count import devices_of
from simfrontier.answers.accuracy.published_runs.rates import PER_DEVICE, Rate, step_flops
from simfrontier.answers.accuracy.published_runs.rules import Rule, Told, Unknown, load_rules, told
from simfrontier.answers.accuracy.published_runs.table import VALUE, Run
from simfrontier.base.errors import InputError, nearest, wrong
from simfrontier.core.machine import catalog, document_of, load_machine
from simfrontier.core.plan import MOST_MICRO_BATCHES
from simfrontier.core.workload import GptShape
from simfrontier.inputs.scenario import Scenario, in_case, scenario_of, tokens_of

PLAN: Final = "run"  # name of the plan in the scenario of a job
USUAL_HEAD: Final = 128  # features of a head, where a source tells no number of heads
KNOWN_DEVICES: Final = (
    "A100, A800, H100, H200, H800, H20, GH200, B200, B300, GB200, GB300, V100, "
    "MI250, MI250X, MI300X, MI325X, MI350X, MI355X, Max 1550"
)
PADDED: Final = 128  # vocabularies are padded to multiples of this on each rank (Megatron-LM, arguments.py)
STATES: Final = 16  # bytes of a parameter: 16-bit weight and gradient, fp32 weight, two moments (arXiv 1910.02054)
WEIGHT: Final = 2  # of those, of a frozen one
OTHER_MODEL: Final = 1.6  # factor between FLOPs of a token beyond any way to count them (recomputation 4/3, attention)
SAME_FLOPS: Final = 0.01  # by which FLOPs of a token that are those of a model may differ from its own
KEPT: Final = 0.1  # share by which a batch may move so that the micro-batch stays as told
MOST_CHUNKS: Final = 4
MOST_TENSOR: Final = (2, 4, 8)  # degrees of tensor parallelism, inside a node
MOST_TOKENS: Final = 16_384  # of a micro-batch that no source tells: as those of the shipped runs with divided weights
GATHERING: Final = ("zero3", "hsdp", "zeropp")  # families whose ranks gather weights in each micro-batch
NODE_DEVICES: Final = 16  # the most in a node, beyond which a machine's nodes are NVLink domains
SKEWED: Final = 0.25  # spread of a step whose experts nothing forces to balance
USUAL_ASPECT: Final = 128  # width over layers of a GPT of a usual shape: 12,288 / 96 (arXiv 2005.14165, table 2.1)
OF_TENSOR: Final = ("sequence_parallel", "product_pieces")  # keys of a plan that need tensor parallelism
QUANTISED: Final = ("qwz", "hpz", "qgz")  # keys of ZeRO++
OF_EXPERTS: Final = ("dispatch", "overlap_experts")  # keys of a plan that divides the experts of a layer
OF_DATA: Final = ("gradient_codec", *QUANTISED)  # keys of a plan that say how data axes communicate


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A published run as a scenario with one plan at one size, with the unit of its published value and the assumptions
    about what its source does not state. `document`: the scenario's document; `stated_bytes`: memory per device that
    the source states; `steps`: number of scenario steps that make up one step of the run, if the run has more
    micro-batches than the schedule lays out; `documents`: number of sequences of the scenario that one of the run is
    packed of.
    """

    run: Run
    scenario: Scenario
    document: Mapping[str, Any]
    rate: Rate
    unknown: tuple[Unknown, ...]
    stated_bytes: float | None = None
    steps: float = 1.0
    documents: int = 1


def job_of(run: Run, rules: Sequence[Rule] | None = None) -> Job:
    """Return the scenario of a run by rules (default: the shipped ones). Raises InputError if no scenario can express
    the run.
    """
    if run.fault:
        raise InputError(run.fault)
    if math.isnan(run.value):
        raise InputError(f"value: {wrong(run['value'], VALUE)}")
    said = told(run, load_rules() if rules is None else rules)
    if said.refused:
        raise InputError(said.refused)
    making = _Making(run, said)
    document, rate = making.document(), making.rate()
    scenario = scenario_of(document, run.where, laid_out=False)
    _refuse_other_model(run, scenario, rate, said.table("stated"))
    return Job(
        run=run,
        scenario=scenario,
        document=document,
        rate=rate,
        unknown=tuple(making.assumed),
        stated_bytes=_stated_bytes(said.table("stated")),
        steps=making.steps,
        documents=making.documents,
    )


def _refuse_other_model(run: Run, scenario: Scenario, rate: Rate, known: Mapping[str, Any]) -> None:
    """Raise InputError if the FLOPs of a token, which follow where a source states both FLOP/s and tokens/s of a
    device, are far from those of the model that it names: then it has run another one, e.g. of fewer layers."""
    stated = _stated_flops(run, rate, known)
    if stated is None:
        return
    shape = scenario.case(PLAN, scenario.file.run.devices[0]).shape
    assert isinstance(shape, GptShape), "rules read GPTs"
    of_model = _flops_of_token(shape)
    if not of_model / OTHER_MODEL < stated < of_model * OTHER_MODEL:
        gflop = f"{stated / 1e9:.1f} GFLOP a token, the model's {of_model / 1e9:.1f}"
        raise InputError(f"model_shape {run['model_shape']!r}: the stated TFLOP/s and tokens/s are {gflop}")


def _stated_flops(run: Run, rate: Rate, known: Mapping[str, Any]) -> float | None:
    """Return the FLOPs of a token that follow from the FLOP/s and tokens/s of a device; None if not both are stated."""
    if "tflops" not in known or rate.measure != "tokens_per_s_per_device":
        return None
    return float(known["tflops"]) * 1e12 * rate.factor / (run.value * rate.devices)


def _flops_of_token(shape: GptShape) -> float:
    return step_flops(shape, 1.0, "model", recomputes=False) / shape.sequence


def _stated_bytes(known: Mapping[str, Any]) -> float | None:
    """Return the memory per device in bytes that the source states; None if it states none."""
    if "memory_mb" in known:
        return float(known["memory_mb"]) * 1e6
    return float(known["memory_gb"]) * 1e9 if "memory_gb" in known else None


class _Making:
    """Builder of a run's scenario. `grid`: the keys that divide the job among devices; `assumed`: assumptions about
    what the source does not state; `ranks`: number of data-parallel ranks; `steps`, `documents`: as in `Job`.
    """

    def __init__(self, run: Run, said: Told) -> None:
        """Raises InputError for a machine that no rule knows, or where the text of the devices says no number."""
        self.run, self.said, self.assumed = run, said, list(said.assumed)
        self.grid, self.model, self.training = said.table("grid"), said.table("model"), said.table("training")
        self.machine = said.table("machine")
        if "name" not in self.machine:
            raise InputError(
                f"machine {run['machine']}: unknown; {nearest(run['machine'], catalog())} (simfrontier list machines); "
                f"devices that have a file: {KNOWN_DEVICES}"
            )
        self.machine["name"] = in_case(self.machine["name"], catalog())
        self.tensor, self.pipeline = self.grid.get("tensor", 1), self.grid.get("pipeline", 1)
        self.context = self.grid.get("context", 1)
        self.devices = devices_of(run["devices"], self.machine["name"])
        self.ranks, self.steps, self.documents = 1, 1.0, 1

    def assume(self, text: str) -> None:
        self.assumed.append(Unknown(text=text))

    def document(self) -> dict[str, Any]:
        """Return the scenario's document. Raises InputError for models and batches that cannot be expressed."""
        self._limit_ranks()
        self._complete_model()
        numbers = self._nodes() | self._more_nodes() | self._network()
        self._divide_batch()
        self._unpack()
        return {
            "name": "run",
            "title": self.run.title,
            "machine": self.machine | ({"overrides": numbers} if numbers else {}),
            "library": self.said.table("library"),
            "stack": self.said.table("stack")["name"],
            "model": self.model,
            "training": self.training,
            "engine": self.said.table("engine"),
            "run": {"devices": [self.devices]},
            "plans": {PLAN: self._plan()},
        }

    def rate(self) -> Rate:
        """Return the unit of the published value; `rate.per`: whether a rate is per node or for the whole job, if not
        per device.
        """
        values = self.said.table("rate")
        if "measure" not in values:
            raise InputError("unit: unknown; allowed: tokens/s/GPU, s/iteration, samples/s, TFLOPS/GPU, MFU %")
        match values.pop("per", "device"):
            case "job":
                values["devices"] = self.devices
            case "node":
                values["measure"] = PER_DEVICE.get(values["measure"], values["measure"])
                values["devices"] = load_machine(self.machine["name"]).devices_per_node
        if values["measure"].startswith("samples"):  # of the run, not of the scenario
            values["factor"] = values.get("factor", 1.0) / self.documents
        return Rate(**values)

    # ── machine and model ──

    def _limit_ranks(self) -> None:
        """Where a batch has fewer sequences than the job has data-parallel ranks: divide them by tensor parallelism, to
        no more than key heads, if the source tells no plan; if it tells one, and the value is of a device, leave out
        the ranks without a sequence, as which no others have worked."""
        batch, grid = self.training.get("batch", 0), self.grid
        if not 0 < batch * self._inner < self.devices:
            return
        if "tensor" in grid and self.rate().is_of_device:
            self.assume(f"{batch * self._inner} of {self.devices} devices: no more have a sequence")
            self.devices = batch * self._inner
        elif "tensor" not in grid and grid.get("data") not in GATHERING:
            most = self.model.get("kv_heads") or self.model.get("heads") or 1
            enough = [n for n in MOST_TENSOR if most % n == 0 and n * self._inner * batch >= self.devices]
            if enough and self.devices % (enough[0] * self._inner) == 0:
                self.tensor = grid["tensor"] = enough[0]
                text = f"tensor parallelism: {self.tensor}, with fewer sequences than devices"
                self.assumed.append(Unknown(text=text, spread=0.1))

    @property
    def _inner(self) -> int:
        """Number of devices that work on the same sequences."""
        return math.prod(self.grid.get(axis, 1) for axis in ("tensor", "context", "pipeline", "x", "y"))

    def _nodes(self) -> dict[str, float]:
        """Return the number of devices that the run has in each node, if it is another one than the machine's: as many
        in each of as few nodes as possible (72 in an NVLink domain, of which a job of 128 takes 64 in each of two)."""
        name = self.machine["name"]
        if name not in catalog():
            return {}
        full = load_machine(name).devices_per_node
        if "chains" in document_of(name).get("node", {}):  # chains are of whole nodes
            return {}
        stated = self.grid.get("node_devices", full)  # of an NVLink domain texts tell the trays
        if full <= NODE_DEVICES and stated < full and self.devices > stated and self.devices % stated == 0:
            return {"devices_per_node": float(stated)}
        if self.devices % full == 0 or full % self.devices == 0:
            return {}
        fits = (n for n in range(-(-self.devices // full), self.devices) if self.devices % (n * self.tensor) == 0)
        nodes = next(fits, None)
        if nodes is None:
            return {}
        self.assume(f"{self.devices // nodes} of the {full} devices of each node")
        return {"devices_per_node": float(self.devices // nodes)}

    def _more_nodes(self) -> dict[str, float]:
        """Return the numbers of a fat tree of more nodes than the machine's, where the run has more devices."""
        name = self.machine["name"]
        if name not in catalog():
            return {}
        machine = load_machine(name)
        nodes = -(-self.devices // machine.devices_per_node)
        if nodes <= machine.num_nodes or machine.fat_tree is None:
            return {}
        self.assume(f"{nodes} nodes of the same kind, more than the {machine.num_nodes} of {name}")
        leaves = -(-nodes // machine.fat_tree.nodes_per_leaf)
        return {"num_nodes": float(nodes), "fat_tree.num_leaves": float(leaves)}

    def _network(self) -> dict[str, float]:
        """Return the numbers of the machine's file that describe the network of the run's nodes."""
        known, name = self.said.table("network"), self.machine["name"]
        if not known or name not in catalog():  # a file of one's own says its network itself
            return {}
        machine = load_machine(name)
        gbit_per_s = {
            "edr_links": 100.0,
            "gbit_per_device": machine.devices_per_node,  # before the rules that take any rate for a node's
            "gbit_per_node": 1.0,
            "tbit_per_node": 1e3,
        }
        if "links" in known:
            total = known["links"] * known["gbit_per_link"]
        else:
            total = next(known[key] * each for key, each in gbit_per_s.items() if key in known)
        return {"link_classes.nic.bytes_per_s": total * 1e9 / 8 / max(1, len(machine.node.nic_device))}

    def _complete_model(self) -> None:
        model = self.model
        self._guess_size()
        self._load_experts()
        for key in ("num_layers", "hidden", "vocabulary"):
            if key not in model:
                text = "allowed: L=24 h=2048 a=16 v=50257, or the name of a published model"
                raise InputError(f"model_shape {self.run['model_shape']!r}: unknown model, {key} not found; {text}")
        if "sequence_k" in self.grid:
            model["sequence"] = 1024 * self.grid["sequence_k"]
        heads, hidden = model.get("heads"), model["hidden"]
        ffn = model.get("ffn_hidden") or 4 * hidden
        if "gated" not in model and ffn != 4 * hidden:
            model["gated"] = True
            self.assume("MLP: gated, as most whose features are not four times the width")
        if heads is None or (hidden % heads and model.get("head_dim") is None):
            model["heads"] = _usual_heads(hidden, self.tensor)
            instead = "" if heads is None else f" instead of {heads}, which do not divide hidden = {hidden}"
            self.assume(f"heads: {model['heads']}{instead}")
        model["name"] = self.run["model_shape"].split(" L=")[0]
        if self.tensor > (model.get("kv_heads") or self.tensor):
            self.assume(f"keys and values: each head on {self.tensor // model['kv_heads']} ranks")  # as Megatron-Core
            model["kv_heads"] = self.tensor
        if self.tensor > 1:
            model["vocabulary"] = _up(model["vocabulary"], PADDED * self.tensor)
        axes = self.grid.get("x", 1) * self.grid.get("y", 1)
        if model["vocabulary"] % axes:  # AxoNN divides it over both
            model["vocabulary"] = _up(model["vocabulary"], axes)
        self._find_layers()
        if model.get("checkpointing") != "full":  # rules give keys one by one
            model.pop("checkpoint_every", None)
        if "linear_precision" not in model:
            model.pop("narrow_products", None)
        if self.pipeline > 1 < (every := model.get("checkpoint_every", 1)):  # which divides the layers of every stage
            model["num_layers"] = _up(model["num_layers"], self.pipeline * every)
        if self._blocks % self.pipeline:
            self.assume(f"stages of {-(-self._blocks // self.pipeline)} layers, some of one less")

    def _load_experts(self) -> None:
        """Set the rows of the most loaded rank of experts, relative to the mean, where nothing forces a balance: with
        rows of an expert that deviate by `rows_deviation` of their mean, a rank's are the mean of those of its experts,
        and the most loaded of r ranks deviates as the normal quantile of (r - 3/8) / (r + 1/4) (Blom 1958)."""
        deviation, experts = self.grid.get("rows_deviation", 0.0), self.model.get("experts")
        if not deviation or experts is None or self.model.get("capacity"):
            return
        ranks = self.grid.get("expert", 1)
        highest = NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25))
        skew = min(float(ranks), 1.0 + deviation * math.sqrt(ranks / experts) * highest)
        skew = self.model["expert_skew"] = round(4.0 * skew) / 4.0  # so that rows still divide
        if ranks > 1:
            text = f"experts: {skew:.2f} times the mean number of rows on the most loaded rank"
            self.assumed.append(Unknown(text=text, spread=SKEWED))

    def _find_layers(self) -> None:
        """Set the number of layers to another one, fewer, where the stated FLOPs of a token are just those of as many
        whole layers on every stage: benchmarks cut models."""
        stated = _stated_flops(self.run, self.rate(), self.said.table("stated"))
        full, shape = self.model["num_layers"], self._shape()
        if stated is None or stated > _flops_of_token(shape) / OTHER_MODEL:
            return
        for count in range(self.pipeline, full, self.pipeline):
            if abs(_flops_of_token(replace(shape, num_layers=count)) / stated - 1.0) < SAME_FLOPS:
                self.model["num_layers"] = count
                self.assume(f"layers: {count} of {full}, of which the stated TFLOP/s and tokens/s are")

    def _shape(self) -> GptShape:
        names = {each.name for each in fields(GptShape)}
        return GptShape(**{key: value for key, value in self.model.items() if key in names}, source=self.run.where)

    def _guess_size(self) -> None:
        """Set layers and width of a GPT or Llama that is told by its parameters alone to those of a usual shape."""
        billions = self.grid.get("size_b", 1e3 * self.grid.get("size_t", 0))
        if not billions or "num_layers" in self.model or "hidden" in self.model:
            return
        width = (1e9 * billions / 12 * USUAL_ASPECT) ** (1 / 3)
        step = USUAL_HEAD if width < USUAL_HEAD**2 / 8 else 4 * USUAL_HEAD
        hidden = max(1, round(width / step)) * step
        layers = max(1, round(1e9 * billions / (12 * hidden**2)))
        self.model |= {"num_layers": layers, "hidden": hidden}
        text = f"layers and width: {layers} of {hidden}, as usual for {billions} billion parameters"
        self.assumed.append(Unknown(text=text, spread=0.1))

    # ── batch ──

    def _divide_batch(self) -> None:
        """Determine batch and micro-batch (stated in sequences or tokens, per step or per device), the number of ranks
        that share the batch, and how many such steps one step of the run takes."""
        grid, known, sequence = self.grid, self.training, self.model["sequence"]
        inner = self._inner
        if self.devices % inner:
            names = " × ".join(axis for axis in ("tensor", "context", "pipeline", "x", "y") if grid.get(axis, 1) > 1)
            raise InputError(f"plan: {names} = {inner} does not divide {self.devices} devices")
        ranks = self.ranks = self.devices // inner
        tokens = tokens_of(self.run["batch"])
        if "batch" not in known and tokens is not None:
            known["batch"] = max(ranks, round(tokens / sequence / ranks) * ranks)
        if "batch" not in known and "batch_per_device" in grid:
            known["batch"] = grid["batch_per_device"] * self.devices
        if "tokens_per_device" in grid:
            known["micro_batch"] = max(1, grid["tokens_per_device"] // sequence)
            known["batch"] = known["micro_batch"] * ranks
        if "batch" not in known and "rank_batch" in grid:  # torchtitan's pipeline_parallel_microbatch_size is 1
            known["batch"] = grid["rank_batch"] * ranks
            grid.pop("micro_batches", None)
            known["micro_batch"] = 1 if self.pipeline > 1 else grid["rank_batch"]
        parts = ranks * grid.get("grad_accum", 0)
        if "micro_batch" not in known and "batch" in known and parts and known["batch"] % parts == 0:
            known["micro_batch"] = known["batch"] // parts
        if "micro_batches" in grid and "batch" in known:  # the micro-batch that is told is a rank's share of a step
            known["micro_batch"] = max(1, known["batch"] // (ranks * grid["micro_batches"]))
        if "micro_batch" not in known:
            known["micro_batch"] = self._usual_micro_batch()
            self.assume(f"micro-batch: {known['micro_batch']}")
        if "batch" not in known:
            known["batch"] = ranks * known["micro_batch"] * grid.get("grad_accum", 16)
            self.assume(f"batch: {known['batch']} sequences")
        if known["batch"] % (ranks * known["micro_batch"]):
            self._make_batch_divide()
        stages = self.pipeline
        most = ranks * known["micro_batch"] * max(1, MOST_MICRO_BATCHES // stages) * stages
        if known["batch"] > most:
            self.steps = known["batch"] / most
            known["batch"] = most

    def _usual_micro_batch(self) -> int:
        """Return 1; of plans that gather weights in each micro-batch, as much of a rank's share as is usual."""
        share = self.training.get("batch", 0) // self.ranks
        if share < 1 or not ("x" in self.grid or self.grid["data"] in GATHERING):
            return 1
        most = max(1, MOST_TOKENS // self.model["sequence"])
        return max(n for n in range(1, min(share, most) + 1) if share % n == 0)

    def _unpack(self) -> None:
        """Replace packed sequences by the documents in them: attention stays inside a document, and all other work is
        done token by token."""
        length, sequence = self.grid.get("document", 0), self.model["sequence"]
        if length and sequence % length == 0:
            self.documents = sequence // length
            self.model["sequence"] = length
            for key in ("batch", "micro_batch"):
                self.training[key] *= self.documents

    def _make_batch_divide(self) -> None:
        """Choose a batch near the stated one that divides evenly, keeping the stated micro-batch if the batch changes
        little.
        """
        known = self.training
        per_rank = known["batch"] / self.ranks
        if per_rank < 1:
            text = f"batch = {known['batch']} over {self.ranks} data-parallel ranks: less than a sequence each"
            raise InputError(text)
        near = round(per_rank / known["micro_batch"]) * known["micro_batch"]
        if abs(near / per_rank - 1.0) > KEPT:
            known["micro_batch"] = math.gcd(round(per_rank), known["micro_batch"])
            near = round(per_rank / known["micro_batch"]) * known["micro_batch"]
        known["batch"] = near * self.ranks
        self.assume(f"batch: {known['batch']} sequences, micro-batch {known['micro_batch']}, so that they divide")

    # ── plan ──

    def _plan(self) -> dict[str, Any]:
        """Return the plan table of a scenario with this grid."""
        grid, own = self.grid, self.said.table("plan")
        family = grid["data"]
        if family == "hsdp" and grid.get("shard", 0) > load_machine(self.machine["name"]).devices_per_node:
            family = "zero3"
            self.assume(f"weights: divided over all ranks, not over {grid['shard']}")
        elif family == "hsdp" and self._outgrows_node():
            family = "zero3"
            self.assume("weights: divided over all ranks, since the states do not fit into a node")
        of_data = ("gradient_codec", *(QUANTISED if family == "zeropp" else ()))
        data = {"family": family, **{key: value for key, value in own.items() if key in of_data}}
        left_out = [*OF_DATA, *(() if self.tensor > 1 and "x" not in grid else OF_TENSOR)]
        left_out += [] if self.context > 1 else ["context_by"]
        left_out += [] if self._experts() else OF_EXPERTS
        rest = {key: value for key, value in own.items() if key not in left_out}
        if "product_pieces" in rest:  # as many as the positions of a rank divide into; such plans cut the sequence
            pieces = math.gcd(rest["product_pieces"], self.model["sequence"] // (self.tensor * self.context))
            rest |= {"sequence_parallel": True, "product_pieces": pieces}
        if "x" in grid:
            axes = {axis: grid.get(axis, 1) for axis in "xyz"}
            return {"family": "axonn", **axes, "pipeline": self.pipeline, "data": data, **rest}
        experts = self._experts()
        if (experts or self.context > 1) and family in GATHERING:
            data["family"] = "zero3"
        if self.tensor == self.pipeline == self.context == 1 and not experts:
            return data | rest
        inside = {"context": self.context} if self.context > 1 else {}
        grown = {"tensor": self.tensor, **inside, "pipeline": self.pipeline, **experts, "data": data}
        order = self._order()
        if self._blocks % (self.pipeline * order.get("chunks", 1)):  # the ends have less (arXiv 2407.21783, 3.3.2)
            grown["layers"] = "even"
        if self.pipeline > 1 and order.get("order") != "interleaved":
            rest.pop("overlap_experts", None)  # which needs it
        return {"family": "megatron", **grown, **rest, **order}

    @property
    def _blocks(self) -> int:
        """Number of layers, with those of multi-token prediction."""
        return int(self.model["num_layers"]) + (self.model.get("mtp_layers") or 0)

    def _experts(self) -> dict[str, int | bool]:
        """Return the keys of a plan that divides the experts of a layer; empty for others. Unless the source tells it,
        tensor-parallel ranks divide the experts of a layer, not each expert, where they can: Megatron-Bridge's recipes
        have expert_tensor_parallel_size = 1."""
        expert = self.grid.get("expert", 1)
        if expert == 1 or "experts" not in self.model:
            return {}
        inner = self.tensor * self.context
        if self.context > 1 and expert % inner and self.model["experts"] % inner == 0:
            self.assume(f"experts: divided over the {inner} ranks of tensor and context parallelism, not over {expert}")
            expert = inner
        inside = self.grid.get("expert_tensor", 1 if expert % self.tensor == 0 else self.tensor)
        if self.tensor == 1:
            return {"expert": expert}
        cut = {"sequence_parallel": True} if inside == 1 else {}  # without it Megatron-LM refuses such a grid
        if inside > 1 and self.context > 1:
            cut = {"sequence_parallel": False}
            self.assume(
                "experts that tensor parallelism divides, beside context parallelism: positions are whole on its ranks"
            )
        return {"expert": expert, "expert_tensor": inside, **cut}

    def _outgrows_node(self) -> bool:
        """Return whether the weights and the optimizer's states, divided over the devices of a node alone, are larger
        than the memory of a device."""
        shape, machine = self._shape(), load_machine(self.machine["name"])
        trained = shape.num_parameters if shape.lora_rank is None else shape.adapter_elements(shape.num_experts)
        held = STATES * trained + WEIGHT * (shape.num_parameters - trained)
        return held / machine.devices_per_node > machine.device.hbm_bytes

    def _order(self) -> dict[str, Any]:
        """Return the keys of a pipeline order other than 1F1B, if the run uses one and the number of micro-batches
        allows it.
        """
        order = self.grid.get("order", "1f1b")
        if self.pipeline == 1 or order == "1f1b":
            return {}
        if order == "zb-h1":
            return {"order": order}
        micros = self.training["batch"] // (self.ranks * self.training["micro_batch"])
        if order == "dualpipev" and micros < 2 * self.pipeline:
            self.assume("ZB-V: fewer micro-batches than two per stage, as DualPipeV asks")
            order = "zb-v"
        if order != "interleaved":
            return {"order": order, "chunks": 2}
        told = self.grid.get("chunks")
        chunks = _chunks(told, -(-self._blocks // self.pipeline) // self.model.get("checkpoint_every", 1))
        if told is not None and self.model["num_layers"] % self.pipeline and told * self.pipeline <= self._blocks:
            chunks = told  # some have one layer less
        if micros % self.pipeline:
            self.assume("1F1B: the micro-batches do not divide by the stages, as interleaving asks")
            return {}
        return {"order": "interleaved", "chunks": chunks} if chunks > 1 else {}


def _up(number: int, factor: int) -> int:
    """Return `number` rounded up to a multiple of `factor`."""
    return -(-number // factor) * factor


def _usual_heads(hidden: int, tensor: int) -> int:
    """Return the number of attention heads that divides `hidden`, is divisible by `tensor`, and gives the most usual
    head size.
    """
    farthest = USUAL_HEAD**2  # of sizes above the usual one: a head of size 1 is as near
    sizes = [size for size in range(farthest, 0, -1) if hidden % (size * tensor) == 0]
    return hidden // min(sizes, key=lambda size: abs(math.log(size / USUAL_HEAD))) if sizes else 1


def _chunks(asked: int | None, layers: int) -> int:
    """Return the number of layer chunks per stage: the largest divisor of `layers` from 2 up to `asked` (None: up to
    four). Without such a divisor, the smallest one above four if `asked` is None, else 1."""
    most = MOST_CHUNKS if asked is None else asked
    fits = [n for n in range(2, layers + 1) if layers % n == 0]
    few = [n for n in fits if n <= most]
    return few[-1] if few else fits[0] if fits and asked is None else 1
