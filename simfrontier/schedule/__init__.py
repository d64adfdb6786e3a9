"""The schedule: what every rank does in one step, never how long it takes; checked, stored and drawn."""

from simfrontier.schedule.check import CheckReport, check
from simfrontier.schedule.codec import Codec, parse_codec
from simfrontier.schedule.expand import ExpandedProgram, expand
from simfrontier.schedule.finding import Finding
from simfrontier.schedule.ir import Call, Collective, Compute, Exchange, Op, Ref, Role, Schedule, Tensor
from simfrontier.schedule.issuer import Issuer
from simfrontier.schedule.lifetimes import Peak, lifetimes, peak_bytes
from simfrontier.schedule.mesh import Mesh
from simfrontier.schedule.placement import Placement, parse_placement
from simfrontier.schedule.render import render
from simfrontier.schedule.store import digest, from_json, load, save, to_json

__all__ = [
    "Call",
    "CheckReport",
    "Codec",
    "Collective",
    "Compute",
    "Exchange",
    "ExpandedProgram",
    "Finding",
    "Issuer",
    "Mesh",
    "Op",
    "Peak",
    "Placement",
    "Ref",
    "Role",
    "Schedule",
    "Tensor",
    "check",
    "digest",
    "expand",
    "from_json",
    "lifetimes",
    "load",
    "parse_codec",
    "parse_placement",
    "peak_bytes",
    "render",
    "save",
    "to_json",
]
