"""What a long training yields: failures, checkpoints, restarts and spare nodes, and how many useful steps a day are
left."""

from simfrontier.answers.goodput.model import Shares as Shares
from simfrontier.answers.goodput.yields import (
    Goodput as Goodput,
    Yield as Yield,
    find_goodput as find_goodput,
    goodput_rows as goodput_rows,
)
