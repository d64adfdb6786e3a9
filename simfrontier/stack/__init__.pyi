from .stack import Stack as Stack, load_stack as load_stack
