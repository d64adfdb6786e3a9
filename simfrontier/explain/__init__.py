"""Explanations: why a plan is as fast as it is, what would help most, and what makes it differ from another plan."""

from simfrontier.explain.explanation import DoesNotFitError, Explanation, PlanComparison, TriedChange
from simfrontier.explain.run import explain

__all__ = ["DoesNotFitError", "Explanation", "PlanComparison", "TriedChange", "explain"]
