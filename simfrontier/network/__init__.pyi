from .boxes import box as box, ends as ends, joining_links as joining_links
from .detours import around_dead as around_dead, dead_wires as dead_wires
from .fabric import Fabric as Fabric, ResourceKind as ResourceKind
from .folding import Folding as Folding, LoadColumn as LoadColumn, fold as fold, fold_states as fold_states
from .groups import groups_of_job as groups_of_job, nodes_of_job as nodes_of_job, num_unlike as num_unlike
from .hashes import combine as combine
from .layout import GroupLayout as GroupLayout, lay_out as lay_out
from .maxmin import solve as solve, solve_each as solve_each
from .messages import messages_loads as messages_loads
from .node_classes import ClassRates as ClassRates, classes_of_nodes as classes_of_nodes
from .pairs import paired as paired
from .pattern import (
    Pattern as Pattern,
    assemble as assemble,
    equal_parts as equal_parts,
    finished as finished,
    group_loads as group_loads,
    local as local,
    masks as masks,
    pool_loads as pool_loads,
    wait_pattern as wait_pattern,
)
from .route_tables import RouteTable as RouteTable, route_table as route_table, save_routes as save_routes
from .routes import route as route
from .servers import Server as Server, servers_of as servers_of
from .template import (
    NETWORK as NETWORK,
    RingOrder as RingOrder,
    Template as Template,
    load as load,
    orders as orders,
    positions as positions,
    send as send,
)
