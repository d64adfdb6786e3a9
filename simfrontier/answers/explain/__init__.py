"""Explanations: why a plan is as fast as it is, what would help most, and what makes it differ from another plan."""

from simfrontier.answers.explain.explanation import (
    DoesNotFitError as DoesNotFitError,
    Explanation as Explanation,
    PlanComparison as PlanComparison,
    ShownWait as ShownWait,
    TriedChange as TriedChange,
    Waits as Waits,
)
from simfrontier.answers.explain.published import (
    RUNS as RUNS,
    AgainstPublished as AgainstPublished,
    ComparedJob as ComparedJob,
    Difference as Difference,
    names_runs as names_runs,
)
from simfrontier.answers.explain.run import explain as explain
