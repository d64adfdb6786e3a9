"""The cross-entropy loss, and what ranks that have some of the classes say of their part of it."""

from typing import Final

from simfrontier.core.program.op_kind import ModelKind

LOSS: Final = ModelKind(name="loss", words="the loss", has_whole_rows=True, has_passes=True, ends=True, is_of_loss=True)
PARTS: Final = (
    ModelKind(name="loss_max", words="maxima of the loss", reduction="max", is_of_loss=True),
    ModelKind(
        name="loss_sums", words="sums of the loss", sums=True, has_own_labels=True, is_of_loss=True, is_shared=True
    ),
    ModelKind(name="loss_own", words="logits of labels", is_of_loss=True),
    ModelKind(name="loss_exp", words="exponentials of the loss", is_of_loss=True),
    ModelKind(name="loss_sum", words="sums of exponentials", is_of_loss=True, is_shared=True),
    ModelKind(
        name="loss_online",
        words="running sums of the loss",
        reduction="merge",
        has_own_labels=True,
        is_of_loss=True,
        is_shared=True,
    ),
    ModelKind(
        name="loss_pairs",
        words="sums of the loss as m 2^n",
        reduction="merge",
        has_own_labels=True,
        is_of_loss=True,
        is_shared=True,
    ),
)
KINDS: Final = (LOSS, *PARTS)
