"""What training engines and the kernels under them do: software stacks from TOML files, in which numbers carry their
source."""

from simfrontier.core.machine.stack.stack import (
    CATALOG as CATALOG,
    NONE as NONE,
    USUAL as USUAL,
    Stack as Stack,
    load_stack as load_stack,
    stacks as stacks,
    stacks_of as stacks_of,
    usual_stack as usual_stack,
)
