"""The network model: the links of a job, load patterns on those links, max-min fair rates, and folding of equivalent
ranks, links and activities into classes."""

from simfrontier.core.network.detours import around_dead as around_dead, dead_wires as dead_wires
from simfrontier.core.network.fabric import (
    Fabric as Fabric,
    ResourceKind as ResourceKind,
    box as box,
    ends as ends,
    joining_links as joining_links,
)
from simfrontier.core.network.folding import (
    Folding as Folding,
    LoadColumn as LoadColumn,
    fold as fold,
    fold_states as fold_states,
)
from simfrontier.core.network.groups import (
    groups_of_job as groups_of_job,
    nodes_of_job as nodes_of_job,
    num_unlike as num_unlike,
)
from simfrontier.core.network.hashes import combine as combine
from simfrontier.core.network.maxmin import solve as solve
from simfrontier.core.network.messages import messages_loads as messages_loads, paired as paired
from simfrontier.core.network.pattern import (
    NETWORK as NETWORK,
    GroupLayout as GroupLayout,
    Pattern as Pattern,
    RingOrder as RingOrder,
    Template as Template,
    assemble as assemble,
    equal_parts as equal_parts,
    finished as finished,
    group_loads as group_loads,
    lay_out as lay_out,
    load as load,
    local as local,
    masks as masks,
    orders as orders,
    pool_loads as pool_loads,
    positions as positions,
    send as send,
    wait_pattern as wait_pattern,
)
from simfrontier.core.network.routes import (
    RouteTable as RouteTable,
    route as route,
    route_table as route_table,
    save_routes as save_routes,
)
from simfrontier.core.network.servers import Server as Server, servers_of as servers_of
from simfrontier.core.network.speeds import ClassRates as ClassRates, classes_of_nodes as classes_of_nodes
