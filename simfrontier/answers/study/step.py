"""One step of a scenario's schedule, simulated on its machine beside the scenario's other job."""

from __future__ import annotations

from simfrontier.answers.study.neighbour import neighbour_of
from simfrontier.answers.study.schedule_cache import BuiltSchedule
from simfrontier.base.errors import InputError
from simfrontier.core.engine import Fidelity, JobStopsError, SimulatedStep, simulate_step
from simfrontier.core.machine import Perturbation
from simfrontier.core.program import segmented_roles
from simfrontier.inputs.scenario import Scenario


def simulated(
    scenario: Scenario,
    built: BuiltSchedule,
    fidelity: Fidelity,
    exact: bool = False,
    number: int = 0,
    perturbation: Perturbation | None = None,
) -> SimulatedStep:
    """One step of a schedule on the scenario's machine, as it is then, or with something else wrong (`perturbation`);
    `number`: which step of the training. Raises InputError where the machine cannot run it, and JobStopsError where it
    needs something that is dead for good."""
    schedule = built.schedule
    by_ops = exact or fidelity == "chunk"
    parts = segmented_roles(schedule, built.program, whole=False) if by_ops else built.parts
    try:
        return simulate_step(
            schedule,
            scenario.machine,
            scenario.library,
            fidelity,
            scenario.file.perturbation if perturbation is None else perturbation,
            exact,
            scenario.file.run.placement,
            parts,
            number,
            neighbour_of(scenario, schedule.mesh.num_ranks),
        )
    except (InputError, JobStopsError) as error:
        where = f"{scenario.where}: plans.{schedule.meta['plan']}: at {schedule.mesh.num_ranks} devices"
        raise type(error)(f"{where}: {error}") from None
