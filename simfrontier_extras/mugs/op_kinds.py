"""Mugs' kinds of ops: tokens and features, losses, and what keeps queues, memories and the centre."""

from simfrontier.schedule import OpKind

ADDS = (
    OpKind(name="positions", words="positions of tokens", has_own_labels=True),
    OpKind(name="pool", words="means of tokens"),
    OpKind(name="join", words="joining of crops"),
    OpKind(name="unit", words="normalising of features"),
    OpKind(name="nearest", words="nearest rows of a memory", traffic="rows"),
    OpKind(name="first", words="first tokens", traffic="rows"),
    OpKind(name="pick", words="rows for a memory", traffic="rows"),
    OpKind(name="weight_norm", words="lengths of prototypes", is_fused=True),
    OpKind(name="contrast", words="contrastive losses", ends=True),
    OpKind(name="cluster", words="the loss of prototypes", ends=True),
    OpKind(name="centre_sum", words="sums for the centre"),
    OpKind(name="centre", words="the centre"),
    OpKind(name="enqueue", words="filling of queues", has_own_labels=True, traffic="entries"),
)
