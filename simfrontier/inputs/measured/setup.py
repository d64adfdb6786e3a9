"""Facts about a measurement that benchmarks do not print: machine, library, devices, nodes and packages."""

from __future__ import annotations

from dataclasses import dataclass

from simfrontier.base.errors import InputError
from simfrontier.core.machine import is_machine, machine_named


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Facts that the user states; None where not stated. What a file says itself takes precedence."""

    machine: str | None = None
    library: str | None = None
    devices: int | None = None
    nodes: int | None = None
    packages: int | None = None

    def machine_of(self, name: str) -> str:
        """Return the machine, of a file that does not say it. Raises InputError."""
        if not self.machine:
            raise InputError(f"{name}: does not say on which machine, allowed: --machine NAME beside it")
        return self.machine

    def library_of(self, name: str, text: str = "") -> str:
        """Return the library; `text` is what the file says. Raises InputError if neither is known."""
        library = text or self.library
        if not library:
            raise InputError(f"{name}: does not say which library, allowed: --library NAME beside it")
        return library

    def devices_of(self, name: str) -> int:
        """Return the number of devices of a call, of a file that does not say it. Raises InputError."""
        if self.devices is None:
            raise InputError(f"{name}: does not say among how many devices, allowed: --devices N beside it")
        if self.devices < 2:
            raise InputError(f"{name}: --devices: got {self.devices}, allowed: 2 or more")
        return self.devices

    def packages_of(self, devices: int, nodes: int | None) -> int | None:
        """Return the number of packages of a group on so many nodes; None if not stated and not derivable.

        If only the nodes are stated, the devices of each node are on as few packages as the machine has for them.
        """
        if self.packages is not None or nodes is None or self.machine is None or not is_machine(self.machine):
            return self.packages
        return nodes * -(-(devices // nodes) // machine_named(self.machine).devices_per_package)
