"""The number of devices that a text states: a number, nodes times devices, or nodes."""

from __future__ import annotations

import re
from typing import Final

from simfrontier.base.errors import InputError, wrong
from simfrontier.core.machine import load_machine

_KINDS: Final = (  # words for devices, and what stands beside their names
    r"(?:GPU|GCD|device|rank|card|accelerator|chip|tile|XPU|NVIDIA|AMD|Intel|Instinct|G?[AHBV]\d{2,3}|GH200|L40S"
    r"|MI\d{3}[AX]?|SXM\d?|PCIe|\d{2,3} ?GB)s?"
)
_EACH: Final = r"(?: ?(?:each|(?:per|/|a) ?node))?"
_COUNT: Final = re.compile(rf"~?([1-9][\d,]{{0,11}})(?: ?x)?(?:[ -]?{_KINDS})*(?: ?\(.*\))?", re.IGNORECASE)
_PRODUCT: Final = re.compile(
    rf"([1-9]\d{{0,5}})(?: ?nodes?)?,? ?(?:[x×*]|of|with|(?<=nodes, )) ?"
    rf"([1-9]\d{{0,3}})(?: ?x)?(?:[ -]?{_KINDS})*{_EACH}",
    re.IGNORECASE,
)
_TOTAL: Final = re.compile(
    rf"(?:\(=?|=) ?([1-9][\d,]{{0,11}})(?: ?{_KINDS})+\)?|= ?([1-9][\d,]{{0,11}})$", re.IGNORECASE
)
_NODES: Final = re.compile(
    r"([1-9][\d,]{0,8}|one|single)[- ]?(?:x ?)?(?:DGX[- ]?\w*[- ]?)?(?:nodes?|systems?|(?<=DGX)|(?<=DGX.[A-Z]\d\d\d))",
    re.IGNORECASE,
)


def devices_of(text: str, machine: str) -> int:
    """Return the number of devices stated in a text: a number, nodes times devices per node, or nodes. Raises
    InputError.
    """
    if found := _TOTAL.search(text):
        return int((found[1] or found[2]).replace(",", ""))
    if found := _COUNT.fullmatch(text):
        return int(found[1].replace(",", ""))
    if found := _PRODUCT.fullmatch(text):
        return int(found[1]) * int(found[2])
    if found := _NODES.fullmatch(text):
        nodes = int(found[1].replace(",", "")) if found[1][0].isdigit() else 1
        return nodes * load_machine(machine).devices_per_node
    raise InputError(f"devices: {wrong(text, 'a whole number of 1 or more, or nodes: 2x8, 16 nodes')}")
