from .stack import Stack as Stack, load_stack as load_stack, stacks_of as stacks_of
