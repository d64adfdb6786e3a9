"""Steps of hours: the clock's own resolution must not keep a flow from ending."""

from tests.perturbed import perturbed
from tests.simulation.steps import frontier_mesh, schedule, step


def test_a_step_of_days_ends() -> None:
    """A NIC at a hundred-thousandth of its speed: times beyond 8192 s, where a double resolves 2e-12 s."""
    built = schedule("zero3", frontier_mesh(2))
    done = step(built, perturbation=perturbed(links={(0, "nic0>net"): 1e-7}))
    assert done.step_s > 1e5
