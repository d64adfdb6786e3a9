"""What might help a plan: settings to try, each a scenario of its own. What they save is for the simulation to say."""

from __future__ import annotations

from collections.abc import Iterator

from simfrontier.answers.explain.change import Change
from simfrontier.answers.explain.options import option_changes
from simfrontier.answers.step import traffic
from simfrontier.base.units import written
from simfrontier.core.collectives import all_algorithms
from simfrontier.core.engine import SimulatedStep
from simfrontier.core.machine import Provenance
from simfrontier.core.program import Compute
from simfrontier.inputs.scenario import Scenario

_START_UPS = {
    "base_s": "start-up of collectives halved",
    "hop_between_nodes_s": "latency of hops between nodes halved",
    "hop_in_node_s": "latency of hops inside a node halved",
}
_ENGINE: tuple[tuple[str, object, object, str], ...] = (
    ("overlap", False, True, "communication overlaps with computation (engine)"),
    ("blocking", "host", "stream", "blocking calls block their stream, not the host (engine)"),
    ("step_reduction", "end", "overlap", "last reduction of gradients overlaps with the backward (engine)"),
)


def what_ifs(scenario: Scenario, plan: str, step: SimulatedStep) -> Iterator[Change]:
    """All changes that may concern a plan of a scenario as that plan has it, whose options are decided; `step` is its
    step. Some of them may not be possible, or mean nothing for the plan."""
    yield from _links(scenario, step)
    yield from _start_ups(scenario)
    yield from _device(scenario)
    yield from _host(scenario, step)
    for key, off, on, label in _ENGINE:
        if getattr(scenario.file.engine, key) == off:
            yield Change(label=label, kind="overlap", settings={f"engine.{key}": on})
    yield from option_changes(scenario, plan)


def _links(scenario: Scenario, step: SimulatedStep) -> Iterator[Change]:
    """Every link class that the plan's messages use, and what the library reaches inside a node, twice as fast."""
    numbers, fabric = _numbers(scenario.machine.provenance()), step.pricing.fabric
    used = traffic(step).on_link > 0.0
    for number, name in enumerate(fabric.class_names):
        key = f"link_classes.{name}.bytes_per_s"
        if key in numbers and used[fabric.link_class == number].any():
            rate = numbers[key]
            yield Change(
                label=f"{name} links twice as fast",
                kind="link",
                settings={f"machine.overrides.{key}": 2.0 * rate},
                note=f"{written(2.0 * rate, 'bytes/s')} instead of {written(rate, 'bytes/s')}",
            )
    caps = {
        key: value for key, value in _numbers(scenario.library.provenance()).items() if key.startswith("ring_caps.")
    }
    if caps:
        yield Change(
            label="rings inside a node twice as fast",
            kind="link",
            settings={f"library.overrides.{key}": 2.0 * value for key, value in caps.items()},
            note="measured bandwidth of the library, whatever the links",
        )


def _start_ups(scenario: Scenario) -> Iterator[Change]:
    numbers = _numbers(scenario.library.provenance())
    laws = {law for each in all_algorithms() for law in each.laws}  # what calls take, not what the library believes
    for name, label in _START_UPS.items():
        mine = {
            f"library.overrides.{key}": 0.5 * value
            for key, value in numbers.items()
            if key.partition(".")[0] in laws and key.rpartition(".")[2] == name and value > 0.0
        }
        if mine:
            yield Change(label=label, kind="start-up", settings=mine)


def _device(scenario: Scenario) -> Iterator[Change]:
    numbers = _numbers(scenario.machine.provenance())
    precision = scenario.file.model.precision
    table = f"device.{precision}" if f"device.{precision}.matmul_flops_per_s" in numbers else "device"
    rates = [f"{table}.{name}" for name in ("peak_flops_per_s", "matmul_flops_per_s")]
    yield Change(
        label="matrix products twice as fast",
        kind="device",
        settings={f"machine.overrides.{key}": 2.0 * numbers[key] for key in rates if key in numbers},
    )
    key = "device.hbm_bytes_per_s"
    yield Change(
        label="device memory twice as fast",
        kind="device",
        settings={f"machine.overrides.{key}": 2.0 * numbers[key]},
        note=f"{written(2.0 * numbers[key], 'bytes/s')} instead of {written(numbers[key], 'bytes/s')}",
    )


def _host(scenario: Scenario, step: SimulatedStep) -> Iterator[Change]:
    """The host's time per hook, where the plan has hooks on the host."""
    hook_s = scenario.machine.host.hook_s
    ops = step.schedule.distinct_ops()
    if hook_s > 0.0 and any(isinstance(op, Compute) and op.kind == "hook" and op.lane == "host" for op in ops):
        yield Change(
            label="no host time for hooks",
            kind="host",
            settings={"machine.overrides.host.hook_s": 0.0},
            note=f"instead of {written(hook_s, 's').replace(' us', ' µs')} each",
        )


def _numbers(sources: tuple[Provenance, ...]) -> dict[str, float]:
    """The numbers of a file by their keys, tables apart."""
    return {each.key: float(each.value) for each in sources if each.unit != "entries"}
