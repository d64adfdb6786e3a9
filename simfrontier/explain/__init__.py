"""Explanations: why a plan is as fast as it is, what would help most, and what makes it differ from another plan."""

from simfrontier.explain.explanation import Against, Change, DoesNotFitError, Explanation
from simfrontier.explain.run import explain

__all__ = ["Against", "Change", "DoesNotFitError", "Explanation", "explain"]
