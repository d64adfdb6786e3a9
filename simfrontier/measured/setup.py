"""What the output of a benchmark does not say of itself: on which machine, by which library, among how many devices."""

from __future__ import annotations

from simfrontier.errors import InputError
from simfrontier.machine import is_machine, machine_named
from simfrontier.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a user says of a file; None where nothing. What a file says itself wins."""

    machine: str | None = None
    library: str | None = None
    devices: int | None = None
    nodes: int | None = None
    packages: int | None = None

    def machine_of(self, name: str) -> str:
        """The machine, of a file that does not say it. Raises InputError."""
        if not self.machine:
            raise InputError(f"{name}: does not say on which machine, allowed: --machine NAME beside it")
        return self.machine

    def library_of(self, name: str, text: str = "") -> str:
        """The library; `text` is what the file says of it. Raises InputError where neither is known."""
        library = text or self.library
        if not library:
            raise InputError(f"{name}: does not say which library, allowed: --library NAME beside it")
        return library

    def devices_of(self, name: str) -> int:
        """How many devices a call was among, of a file that does not say it. Raises InputError."""
        if self.devices is None:
            raise InputError(f"{name}: does not say among how many devices, allowed: --devices N beside it")
        if self.devices < 2:
            raise InputError(f"{name}: --devices: got {self.devices}, allowed: 2 or more")
        return self.devices

    def packages_of(self, devices: int, nodes: int | None) -> int | None:
        """The packages that a group on so many nodes is on; None where they are not told and do not follow.

        Where the nodes are told and the packages are not, the devices of each node are on as few packages as the
        machine has for them.
        """
        if self.packages is not None or nodes is None or self.machine is None or not is_machine(self.machine):
            return self.packages
        return nodes * -(-(devices // nodes) // machine_named(self.machine).devices_per_package)
