"""Goodput of a long training: useful steps per day after failures, checkpoints, restarts and waiting for spare
nodes."""

from simfrontier.answers.goodput.model import Shares as Shares
from simfrontier.answers.goodput.yields import (
    Goodput as Goodput,
    Yield as Yield,
    find_goodput as find_goodput,
    goodput_rows as goodput_rows,
)
