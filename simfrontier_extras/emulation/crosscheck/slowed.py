"""The effect of a slowed link on a schedule, simulated and for real."""

from __future__ import annotations

from simfrontier.base.io import Positive, Strict


class SlowLinkEffect(Strict):
    """`what` (a step, or one collective) with all links as they should be, and with `link` at `factor` of its rate:
    always, or from `begin_s` to `end_s`, seconds after the step began."""

    what: str
    link: str
    factor: float
    sim_s: Positive
    sim_slowed_s: Positive
    real_s: Positive
    real_slowed_s: Positive
    begin_s: float | None = None
    end_s: float | None = None

    @property
    def condition(self) -> str:
        """The link and its part of its rate, in words."""
        when = "" if self.begin_s is None else f" from {self.begin_s:.3g} to {self.end_s:.3g} s"
        return f"{self.link} at {self.factor:g} of its rate{when}"

    @property
    def apart(self) -> float:
        """Relative difference of real and simulated: of slowed times where the link was slowed for a while, else of the
        effects."""
        ratio = self.real_effect / self.sim_effect if self.begin_s is None else self.real_slowed_s / self.sim_slowed_s
        return abs(ratio - 1.0)

    @property
    def sim_effect(self) -> float:
        """Simulated time relative to that of a healthy link."""
        return self.sim_slowed_s / self.sim_s

    @property
    def real_effect(self) -> float:
        """The same, measured."""
        return self.real_slowed_s / self.real_s
