from .export import KINETO as KINETO
