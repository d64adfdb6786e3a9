"""Hardware models: machines read from TOML files in which every number carries its source. The package knows nothing of
training schedules."""

from simfrontier.core.machine.catalogs import Catalog as Catalog, Provenance as Provenance, sources_of as sources_of
from simfrontier.core.machine.device import (
    AttentionKernel as AttentionKernel,
    CodecSpeeds as CodecSpeeds,
    Device as Device,
    ExpertProducts as ExpertProducts,
    Matmul as Matmul,
    MatmulForms as MatmulForms,
    MeasuredKernel as MeasuredKernel,
    NarrowProducts as NarrowProducts,
    NarrowType as NarrowType,
)
from simfrontier.core.machine.elementary import (
    exp as exp,
    log1p as log1p,
    maximum as maximum,
    minimum as minimum,
    where as where,
    whole as whole,
)
from simfrontier.core.machine.form import MachineFile as MachineFile
from simfrontier.core.machine.graph import way as way
from simfrontier.core.machine.hardware import (
    BUS as BUS,
    NET as NET,
    SWITCH as SWITCH,
    UPLINK as UPLINK,
    Copies as Copies,
    Dragonfly as Dragonfly,
    End as End,
    FatTree as FatTree,
    Link as Link,
    LinkClass as LinkClass,
    Machine as Machine,
    Messages as Messages,
    Node as Node,
    Packets as Packets,
    SizeError as SizeError,
    mesh_sizes as mesh_sizes,
)
from simfrontier.core.machine.job_nodes import (
    JobNodes as JobNodes,
    NodePlacement as NodePlacement,
    compressed as compressed,
    expanded as expanded,
)
from simfrontier.core.machine.load import (
    CATALOG as CATALOG,
    OVERRIDE_SOURCE as OVERRIDE_SOURCE,
    MeasuredNumbers as MeasuredNumbers,
    catalog as catalog,
    catalog_name as catalog_name,
    changed_ns as changed_ns,
    document_of as document_of,
    is_machine as is_machine,
    load_machine as load_machine,
    machine_named as machine_named,
)
from simfrontier.core.machine.perturbation import (
    HEALTHY as HEALTHY,
    NEVER as NEVER,
    BusyPools as BusyPools,
    DegradedLink as DegradedLink,
    DegradedNic as DegradedNic,
    DegradedPool as DegradedPool,
    Perturbation as Perturbation,
    SlowDevice as SlowDevice,
    SlowMemory as SlowMemory,
    SlowNode as SlowNode,
    SlowPackage as SlowPackage,
    Trouble as Trouble,
)
from simfrontier.core.machine.slurm_topology import read_topology as read_topology
from simfrontier.core.machine.spread import LARGEST as LARGEST, SMALLEST as SMALLEST, Spread as Spread
