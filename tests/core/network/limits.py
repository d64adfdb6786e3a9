"""The most that a rank could send if only the links of one class held it up."""

from __future__ import annotations

import numpy as np

from simfrontier.core.collectives import Library, algorithm
from simfrontier.core.cost import EqualGroups
from simfrontier.core.network import equal_parts


def limits(groups: EqualGroups, name: str, library: Library) -> dict[str, float]:
    """Bytes per second by class of link, at a share of 1, by an algorithm."""
    fabric, whole = groups.fabric, dict.fromkeys(groups.machine.link_classes, 1.0)
    used, rate = equal_parts(fabric, algorithm(name).loads(fabric, groups.groups, library, whole))
    classes = fabric.link_class[used]
    return {fabric.class_names[number]: float(rate[classes == number].min()) for number in np.unique(classes)}
