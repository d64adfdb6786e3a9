"""The named shapes of Mugs."""

from simfrontier_extras.mugs.shape import MUGS_MODELS

ADDS = MUGS_MODELS
