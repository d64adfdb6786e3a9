"""The nodes of a published run: how many devices its text means, and what is known of the network between nodes."""

from __future__ import annotations

import re
from typing import Final

from simfrontier.answers.accuracy.published_runs.rules import Told
from simfrontier.answers.accuracy.published_runs.table import Run
from simfrontier.base.errors import InputError, wrong
from simfrontier.core.machine import catalog, load_machine

_KINDS: Final = r"(GPU|GCD|device|rank|card|accelerator|chip|A100|H100|H200|V100|MI250X?)s?"
_COUNT: Final = re.compile(rf"~?([1-9][\d,]{{0,11}})( ?x)?( ?{_KINDS})*", re.IGNORECASE)
_PRODUCT: Final = re.compile(rf"([1-9]\d{{0,5}})( ?nodes?)? ?[x×*] ?([1-9]\d{{0,3}})( ?{_KINDS})*", re.IGNORECASE)
_IN_BRACKETS: Final = re.compile(rf"\(=? ?([1-9][\d,]{{0,11}}) ?{_KINDS}\)", re.IGNORECASE)
_NODES: Final = re.compile(r"([1-9][\d,]{0,8}) ?nodes?", re.IGNORECASE)


def devices_of(run: Run, machine: str) -> int:
    """Return the number of devices, told as a number, as nodes times devices, or as nodes."""
    text = run["devices"]
    if found := _COUNT.fullmatch(text) or _IN_BRACKETS.search(text):
        count = int(found[1].replace(",", ""))
    elif found := _PRODUCT.fullmatch(text):
        count = int(found[1]) * int(found[3])
    elif found := _NODES.fullmatch(text):
        count = int(found[1].replace(",", "")) * load_machine(machine).devices_per_node
    else:
        raise InputError(f"devices: {wrong(text, 'a whole number of 1 or more, or nodes: 2x8, 16 nodes')}")
    return count


def network_of(said: Told) -> dict[str, float]:
    """Numbers of the machine's file that the network of the run's nodes is."""
    known = said.table("network")
    name = said.table("machine")["name"]
    if not known or name not in catalog():  # a file of one's own says its network itself
        return {}
    machine = load_machine(name)
    nics = max(1, len(machine.node.nic_device))
    if "edr_links" in known:
        total = known["edr_links"] * 100.0
    elif "gbit_per_node" in known:
        total = known["gbit_per_node"]
    elif "tbit_per_node" in known:
        total = known["tbit_per_node"] * 1e3
    else:
        total = known["gbit_per_device"] * machine.devices_per_node
    return {"link_classes.nic.bytes_per_s": total * 1e9 / 8 / nics}
