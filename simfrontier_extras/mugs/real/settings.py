"""Settings of Mugs' losses and moving averages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MugsSettings:
    """Temperatures of the losses, and momenta of the moving averages.

    All are the defaults of sail-sg/mugs (main.py: instance_temp and local_group_temp, group_student_temp,
    group_teacher_temp, momentum_teacher; src/loss.py: center_momentum). There the teacher's momentum grows to 1 over
    the run; here it stays.
    """

    contrast_temperature: float = 0.2
    student_temperature: float = 0.1
    teacher_temperature: float = 0.04
    centre_momentum: float = 0.9
    teacher_momentum: float = 0.996


def settings_of(given: object | None) -> MugsSettings:
    """Settings as training has them (`TrainingSettings.of_model`); the defaults where it has none."""
    if given is None:
        return MugsSettings()
    assert isinstance(given, MugsSettings)
    return given
