"""Explanations: why a plan is as fast as it is, what would help most, and what makes it differ from another plan."""

from simfrontier.explanation.explanation import (
    DoesNotFitError as DoesNotFitError,
    Explanation as Explanation,
    PlanComparison as PlanComparison,
    TriedChange as TriedChange,
)
from simfrontier.explanation.run import explain as explain
from simfrontier.explanation.waits import ShownWait as ShownWait, Waits as Waits
