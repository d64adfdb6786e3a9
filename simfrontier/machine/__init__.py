"""What the hardware is: machines from TOML files in which every number carries its source. Knows no schedule."""

from simfrontier.machine.hardware import (
    Device,
    Dragonfly,
    End,
    Host,
    Link,
    LinkClass,
    Machine,
    Matmul,
    Node,
    Provenance,
)
from simfrontier.machine.load import Measured, catalog, load_machine
from simfrontier.machine.sizes import mesh_sizes

__all__ = [
    "Device",
    "Dragonfly",
    "End",
    "Host",
    "Link",
    "LinkClass",
    "Machine",
    "Matmul",
    "Measured",
    "Node",
    "Provenance",
    "catalog",
    "load_machine",
    "mesh_sizes",
]
