from .stack import (
    CATALOG as CATALOG,
    Stack as Stack,
    load_stack as load_stack,
    stacks as stacks,
    stacks_of as stacks_of,
)
