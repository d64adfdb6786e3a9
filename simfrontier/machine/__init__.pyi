from .copies import Copies as Copies, Messages as Messages
from .emulation import Emulation as Emulation, emulated as emulated
from .hardware import (
    BUS as BUS,
    UPLINK as UPLINK,
    CodecSpeeds as CodecSpeeds,
    Dragonfly as Dragonfly,
    End as End,
    FatTree as FatTree,
    Link as Link,
    LinkClass as LinkClass,
    Machine as Machine,
    MatmulForms as MatmulForms,
    Node as Node,
    Packets as Packets,
    Provenance as Provenance,
)
from .load import MeasuredNumbers as MeasuredNumbers, catalog as catalog, load_machine as load_machine
from .sizes import SizeError as SizeError, mesh_sizes as mesh_sizes
from .sources import sources_of as sources_of
from .wiring import (
    FRAME_BYTES as FRAME_BYTES,
    Cable as Cable,
    Wiring as Wiring,
    load_wiring as load_wiring,
    save_wiring as save_wiring,
)
