"""Scenarios ready for simulation: their values at every size and under every software stack, and the batch that all
plans share."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from simfrontier.base.errors import InputError, located
from simfrontier.base.io import Strict, typed
from simfrontier.core.collectives import Library
from simfrontier.core.machine import Machine, SizeError
from simfrontier.core.machine.stack import Stack, usual_stack
from simfrontier.core.plan import Engine, Options, TensorOptions, own_families
from simfrontier.core.program import Mesh
from simfrontier.core.workload import GptShape, Precision, Shape
from simfrontier.inputs.scenario.batches import USUAL_BATCH, batch_near, usual_batch
from simfrontier.inputs.scenario.case import Case, case_of, mesh_of, precision_of
from simfrontier.inputs.scenario.form import ScenarioFile
from simfrontier.inputs.scenario.plans import SearchTable, names_softmax, options_of, searched


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A validated scenario: the file as read, its document (parsed TOML, for variations) and the values to which its
    names refer. `stack` is the software stack of all plans; None if the file names none, in which case each plan runs
    under the default stack of its family (see `of`).

    `searches`: the searches by plan; `resolved_options`: the options that searches have found, by plan and size.
    `sized`: the scenarios of sizes that have tables of their own. `contents`: values that extras have read from their
    tables, by pydantic model. `beside`: the scenario of a neighbouring job, simulated together with this one's job.
    """

    where: str
    document: Mapping[str, Any]
    file: ScenarioFile
    machine: Machine
    library: Library
    shape: Shape
    plans: Mapping[str, Options]
    searches: Mapping[str, SearchTable]
    stack: Stack | None = None
    settings: tuple[str, ...] = ()
    sized: Mapping[int, Scenario] = field(default_factory=dict)
    resolved_options: Mapping[tuple[str, int], Options] = field(default_factory=dict)
    contents: Mapping[type[Strict], object] = field(default_factory=dict)
    beside: Scenario | None = None

    def __repr__(self) -> str:
        sizes = f"{', '.join(f'{size:,}' for size in self.file.run.devices)} {self.machine.device_word}s"
        return f"Scenario {self.file.title!r}: {', '.join(self.plans)} on {sizes}"

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def sequence(self) -> int:
        return self.shape.sequence

    @property
    def precision(self) -> Precision:
        return precision_of(self.file)

    @property
    def peak_flops_per_s(self) -> float:
        """Nominal rate of matrix products of one device in the model's precision, in FLOP/s."""
        return self.machine.matmul(self.file.model.precision).peak_flops_per_s

    @property
    def checkpointing(self) -> bool:
        return self.file.model.checkpointing == "full"

    @property
    def names_softmaxes(self) -> bool:
        """True if a plan sets a softmax kernel other than the default, or another method of the loss."""
        plans = [plan for here in (self, *self.sized.values()) for plan in here.plans.values()]
        named = any(names_softmax(plan) for plan in (*plans, *self.resolved_options.values()))
        return named or self.file.model.softmax != "fused"

    @property
    def beside_words(self) -> str | None:
        """Description of the neighbouring job that is simulated together with this one's; None if there is none."""
        if self.beside is None:
            return None
        devices = f"{self.beside.file.run.devices[0]:,} {self.machine.device_word}s"
        return f"{next(iter(self.beside.plans))} of {self.beside.name} on {devices}"

    @property
    def spread_tables(self) -> dict[int, tuple[float, ...]]:
        """Rows of the tables in `perturbation.spread`, by the place of the table in it."""
        return {number: each.listed for number, each in enumerate(self.file.perturbation.spread) if each.listed}

    @property
    def troubled_size(self) -> int:
        """Size at which the table `slowdown` simulates degraded components."""
        table = self.file.slowdown
        return max(self.file.run.devices) if table is None or table.devices is None else table.devices

    def mesh(self, num_devices: int) -> Mesh:
        """Return the machine's mesh (node, package, gcd) for a number of devices. Raises InputError that names the
        nearest sizes that work."""
        return mesh_of(None, num_devices, self.file.mesh, self.machine)

    def at(self, num_devices: int) -> Scenario:
        """Return the scenario for a size: with the tables `at` of this size, if there are any."""
        return self.sized.get(num_devices, self)

    def of(self, plan: str, num_devices: int) -> Scenario:
        """Return the scenario for one plan at a size: with the tables `at` of this size, and with the machine, engine
        and options of the plan's stack."""
        here = self.at(num_devices)
        return here.of_family(here.plans[plan].family, (plan,)) if plan in here.plans else here

    def of_family(self, family: str, plans: Collection[str] = ()) -> Scenario:
        """Return the scenario reduced to `plans`, which are of one family, under the default software stack of this
        family; unchanged if the scenario names a stack itself, or if the family has no default stack."""
        stack = self.stack_of(family)
        if stack is None or self.stack is not None:
            return self
        document = {**self.document, "plans": {plan: self.document["plans"][plan] for plan in plans}}
        searches = {plan: search for plan, search in self.searches.items() if plan in plans}
        with located(self.where):
            return replace(self, document=document, searches=searches).under(stack)

    def stack_of(self, family: str) -> Stack | None:
        """Return the software stack for plans of a family: that of the scenario, else the default stack of the family;
        None if the scenario excludes stacks, or if the family has no default."""
        if self.file.stack is not None:
            return self.stack
        return usual_stack("lattice" if family in own_families() else family)

    def under(self, stack: Stack) -> Scenario:
        """Return the scenario with all its plans under a software stack; settings of the scenario take precedence over
        the defaults of the stack. Raises InputError if the two contradict each other."""
        document = stack.under(self.document)
        tables = {name: searched(table, name) for name, table in document["plans"].items()}
        file = self.file.model_copy(
            update={
                "stack": stack.name,
                "engine": typed(document["engine"], Engine, key=("engine",)),
                "model": typed(document["model"], type(self.file.model), key=("model",)),
                "plans": document["plans"],
            }
        )
        return replace(
            self,
            file=file,
            stack=stack,
            machine=stack.on(self.machine),
            plans={name: options_of(name, table) for name, (table, _) in tables.items()},
        )

    def case(self, plan: str, num_devices: int) -> Case:
        """Return the case of a plan at a size. Raises InputError that names file and plan."""
        here = self.of(plan, num_devices)
        options = self.resolved_options.get((plan, num_devices), here.plans[plan])
        return here.case_with(plan, options, num_devices, self.at(num_devices).shared_batch(num_devices))

    def shared_batch(self, num_devices: int) -> int | None:
        """Return the number of sequences per step that all plans share at a size, if the file sets neither this number
        nor that of micro-batches; None if the file sets one, or if no plan can be laid out. It is the least common
        multiple, over the plans, of the sequences per micro-batch over all data-parallel ranks, or the multiple nearest
        to the tokens of `training.batch`, or to what is usual. Plans with a search are not counted, and use the same
        number."""
        if num_devices not in self._shared_batches:  # every plan asks, and the answer is of all
            self._shared_batches[num_devices] = self._find_shared_batch(num_devices)
        return self._shared_batches[num_devices]

    @cached_property
    def _shared_batches(self) -> dict[int, int | None]:
        return {}

    def _find_shared_batch(self, num_devices: int) -> int | None:
        file, tokens = self.file, self.file.training.tokens
        if file.training.sequences is not None or "grad_accum" in file.training.model_fields_set:
            return None
        parts: list[tuple[int, int]] = []
        for name, options in self.plans.items():
            if options.grad_accum is not None and file.training.batch is None:
                return None
            if name in self.searches:
                continue
            try:
                mesh = mesh_of(options, num_devices, file.mesh, self.machine)
            except InputError:  # concerns this plan alone, and is raised again where it is simulated
                continue
            count = options.grad_accum or options.micro_batches_together
            part = options.batch_ranks(mesh) * (options.micro_batch or file.training.micro_batch) * count
            parts.append((part, options.pipeline if isinstance(options, TensorOptions) else 1))
        if tokens is not None:
            return batch_near(tokens / self.sequence, [part for part, _ in parts])
        if file.training.batch == USUAL_BATCH and isinstance(self.shape, GptShape):
            return usual_batch(self.shape.num_parameters, self.sequence, parts or [(num_devices, 1)])
        return math.lcm(*(part for part, _ in parts)) if parts else None

    def case_with(self, plan: str, options: Options, num_devices: int, batch: int | None = None) -> Case:
        """Return the case of a plan with these options; `batch` is the number of sequences per step, used if the file
        does not set it."""
        try:
            return case_of(plan, options, num_devices, self.file, self.shape, self.machine, batch)
        except SizeError:  # whatever the plan
            raise
        except InputError as error:
            raise error.within(self.where, ("plans", plan), f"at {num_devices} devices") from None
