"""The bytes of cables, counted while schedules are replayed in a fabric."""

from simfrontier_extras.emulation.real.meter import ByteMeter
from simfrontier_real.step_meter import MeterMaker

ADDS = (MeterMaker(make=ByteMeter),)
