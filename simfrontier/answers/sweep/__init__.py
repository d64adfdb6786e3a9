"""Studies of many points: a file of scenarios and axes, its points, their rows, and the data set of all of them."""

from simfrontier.answers.sweep.adaptive import (
    Until as Until,
    parse_until as parse_until,
    refuse_until as refuse_until,
    run_sweep as run_sweep,
)
from simfrontier.answers.sweep.answers import (
    GOAL as GOAL,
    GoalAnswer as GoalAnswer,
    best_rows as best_rows,
    goal_answer as goal_answer,
    goal_document as goal_document,
    is_goal_of as is_goal_of,
    measure_next as measure_next,
    read_goal as read_goal,
    write_goal as write_goal,
)
from simfrontier.answers.sweep.dataset import (
    AXIS as AXIS,
    ROWS as ROWS,
    Counts as Counts,
    manifest_of as manifest_of,
    read_rows as read_rows,
    refuse_folder as refuse_folder,
)
from simfrontier.answers.sweep.form import SWEEP_POINTS as SWEEP_POINTS, StudyFile as StudyFile
from simfrontier.answers.sweep.indices import Indices as Indices
from simfrontier.answers.sweep.keys import is_of_plan as is_of_plan
from simfrontier.answers.sweep.rounds import (
    Progress as Progress,
    SweepOutcome as SweepOutcome,
    seconds_of as seconds_of,
)
from simfrontier.answers.sweep.study import SweepStudy as SweepStudy, load_study as load_study
