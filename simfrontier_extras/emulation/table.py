"""The table `emulation` of scenarios: how a machine is scaled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from simfrontier.io import Share
from simfrontier.limits import COUNT


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """How a machine is scaled: `scale` on the rates of links and devices (latencies stay); packets of at most
    `packet_bytes`, IP and all within it; and what a shaped link that was idle lets through at once."""

    scale: Share
    packet_bytes: Annotated[int, Ge(1280), Le(65535)] = 9000
    burst_bytes: Annotated[int, Ge(1), Le(COUNT.most)] = 18200
