"""The table `losses` of scenarios: the file of loss curves that the page shows next to the speed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from simfrontier.base.errors import located
from simfrontier.base.io import Strict, Text
from simfrontier.base.limits import COUNT
from simfrontier.inputs.scenario.added_keys import ScenarioKeys

if TYPE_CHECKING:
    from simfrontier.inputs.scenario import Scenario, ScenarioFile
    from simfrontier_extras.losses.curves import LossCurves


class LossesTable(Strict):
    """Losses of real training under compression policies: a CSV file (path relative to the scenario's folder) with the
    columns plan, compression, seed, step and loss; the baseline policy; and the number of final steps whose mean is the
    final loss."""

    file: Annotated[str, Field(min_length=1, pattern=r"^[^\x00-\x1f]+$")]
    baseline: Text = "none"
    source: Text
    last: Annotated[int, Field(ge=1, le=COUNT.most)] = 20


class LossesKeys(Strict):
    """`losses`: loss curves of real training."""

    losses: LossesTable | None = None


def losses_of(scenario: Scenario) -> LossCurves | None:
    """Return the loss curves from the file named in the scenario, None if it names none."""
    known = scenario.contents.get(LossesKeys)
    if known is None:
        return None
    from simfrontier_extras.losses.curves import LossCurves

    assert isinstance(known, LossCurves)
    return known


def _read(file: ScenarioFile, folder: Path) -> LossCurves | None:
    assert isinstance(file, LossesKeys)
    table = file.losses
    if table is None:
        return None
    from simfrontier_extras.losses.curves import policy_of, read_losses

    with located(key=("losses", "baseline")):
        policy_of(table.baseline)
    with located(key=("losses", "file")):
        return read_losses(folder / table.file, table.baseline, table.last, table.source)


ADDS = (ScenarioKeys(form=LossesKeys, read=_read),)
