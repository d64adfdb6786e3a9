"""Analysis: what a schedule moves, where a simulated step's time goes, and what no schedule can beat.

Only what needs no simulation is exported here; the other modules are imported by name.
"""

from simfrontier.analysis.volumes import MessageParts, RequiredBytes, op_need, step_needs

__all__ = ["MessageParts", "RequiredBytes", "op_need", "step_needs"]
