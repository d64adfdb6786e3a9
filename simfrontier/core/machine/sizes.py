"""Which numbers of devices make a full mesh of a machine: parts of one node that divide it, then whole nodes."""

from simfrontier.base.errors import InputError
from simfrontier.core.machine.hardware import Machine


class SizeError(InputError):
    """A number of devices that no plan can run on."""


def mesh_sizes(
    machine: Machine, num_devices: int, per_node: int | None = None, per_package: int | None = None
) -> dict[str, int]:
    """Sizes of the axes node, package and gcd for a job of that many devices.

    `per_node`, `per_package`: how ranks are cut into nodes and packages (default: as the machine's devices are). Raises
    InputError, with the nearest sizes that work, for a number that leaves part of a package or node idle.
    """
    given = per_node is not None or per_package is not None
    per_node, per_package = per_node or machine.devices_per_node, per_package or machine.devices_per_package
    if per_node % per_package or machine.num_devices % per_node:
        raise SizeError(
            f"got {per_node} devices per node and {per_package} per package, allowed: a divisor of the "
            f"{machine.num_devices} devices of {machine.name}, and a divisor of that",
            key=("mesh",),
        )
    inside = _sizes_inside(per_node, per_package)
    if num_devices in inside:
        gcd = min(num_devices, per_package)
        return {"node": 1, "package": num_devices // gcd, "gcd": gcd}
    if num_devices > 0 and num_devices % per_node == 0 and num_devices <= machine.num_devices:
        return {"node": num_devices // per_node, "package": per_node // per_package, "gcd": per_package}
    whole = [num_devices // per_node * per_node, -(-num_devices // per_node) * per_node]
    works = sorted({*inside, *(size for size in whole if per_node <= size <= machine.num_devices), machine.num_devices})
    below = [size for size in works if size < num_devices][-1:]
    above = [size for size in works if size > num_devices][:1]
    cut = f", as mesh cuts its {machine.num_devices} devices" if given else ""
    raise SizeError(
        f"{num_devices} devices do not fill whole nodes of {machine.name} ({machine.num_devices // per_node} "
        f"nodes of {per_node} devices{cut}), use {' or '.join(map(str, below + above))}",
        key=("devices",),
    )


def _sizes_inside(per_node: int, per_package: int) -> list[int]:
    """Numbers of devices within one node: divisors of a package, then divisors of the packages of a node."""
    packages = per_node // per_package
    inside = [size for size in range(1, per_package) if per_package % size == 0]
    return inside + [per_package * size for size in range(1, packages + 1) if packages % size == 0]
