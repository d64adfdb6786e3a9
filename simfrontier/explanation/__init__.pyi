from .explanation import (
    DoesNotFitError as DoesNotFitError,
    Explanation as Explanation,
    PlanComparison as PlanComparison,
    TriedChange as TriedChange,
)
from .run import explain as explain
from .waits import ShownWait as ShownWait, Waits as Waits
