"""Which numbers of devices make a full mesh of a machine: parts of one node that divide it, then whole nodes."""

from simfrontier.errors import InputError
from simfrontier.machine.hardware import Machine


def mesh_sizes(machine: Machine, num_devices: int) -> dict[str, int]:
    """Sizes of the axes node, package and gcd for a job of that many devices.

    Raises InputError, with the nearest sizes that work, for a number that leaves part of a package or node idle.
    """
    per_node, per_package = machine.devices_per_node, machine.devices_per_package
    inside = _sizes_inside(machine)
    if num_devices in inside:
        gcd = min(num_devices, per_package)
        return {"node": 1, "package": num_devices // gcd, "gcd": gcd}
    if num_devices > 0 and num_devices % per_node == 0 and num_devices <= machine.num_devices:
        return {"node": num_devices // per_node, "package": machine.packages_per_node, "gcd": per_package}
    whole = [num_devices // per_node * per_node, -(-num_devices // per_node) * per_node]
    works = sorted({*inside, *(size for size in whole if per_node <= size <= machine.num_devices), machine.num_devices})
    below = [size for size in works if size < num_devices][-1:]
    above = [size for size in works if size > num_devices][:1]
    raise InputError(
        f"devices: {num_devices} devices do not fill whole nodes of {machine.name} ({machine.num_nodes} nodes of "
        f"{per_node} devices), use {' or '.join(map(str, below + above))}"
    )


def _sizes_inside(machine: Machine) -> list[int]:
    """Numbers of devices within one node: divisors of a package, then divisors of the packages of a node."""
    per_package, packages = machine.devices_per_package, machine.packages_per_node
    inside = [size for size in range(1, per_package) if per_package % size == 0]
    return inside + [per_package * size for size in range(1, packages + 1) if packages % size == 0]
