"""Import and export of topologies: from a node's topology XML, as NCCL and RCCL write and read it, to a machine file,
and from a machine to such an XML; and reading of Slurm's topology.conf."""

from simfrontier.core.machine.slurm_topology import SlurmLevels as SlurmLevels, slurm_levels as slurm_levels
from simfrontier.core.machine.topology.device_arch import (
    ARCHES as ARCHES,
    NONE as NONE,
    DeviceArch as DeviceArch,
    Medium as Medium,
    arch_named as arch_named,
    arch_of_machine as arch_of_machine,
    unknown_arch as unknown_arch,
)
from simfrontier.core.machine.topology.nearest_nics import (
    PlacedNics as PlacedNics,
    placed_nics as placed_nics,
    way as way,
)
from simfrontier.core.machine.topology.node_reader import read_node as read_node
from simfrontier.core.machine.topology.node_topology import MOST_MBIT as MOST_MBIT, NodeTopology as NodeTopology
from simfrontier.core.machine.topology.to_machine import (
    machine_document as machine_document,
    machine_text as machine_text,
)
from simfrontier.core.machine.topology.write_node import (
    through_cpus as through_cpus,
    topology_of as topology_of,
    xml_text as xml_text,
)
