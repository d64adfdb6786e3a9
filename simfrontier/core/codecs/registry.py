"""The families of codecs, by name: every module of this package that has `NAMES` and `parse`; `TIMED` are those of its
codecs' own names (`Codec.name`) whose speeds a machine's file may have."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType

import simfrontier.core.codecs
from simfrontier.base.errors import InputError, nearest
from simfrontier.core.codecs.codec import Codec

Parser = Callable[[str, str, str | None], Codec]


@cache
def families() -> tuple[ModuleType, ...]:
    """The modules of all families, in alphabetical order."""
    modules = (
        import_module(f"{simfrontier.core.codecs.__name__}.{module.name}")
        for module in pkgutil.iter_modules(simfrontier.core.codecs.__path__)
    )
    return tuple(module for module in modules if hasattr(module, "NAMES"))


@cache
def parsers() -> dict[str, Parser]:
    """The parser of each name that a codec can be called by: it takes the whole text, the name, and what follows
    its first colon (None: there is none)."""
    return {name: family.parse for family in families() for name in family.NAMES}


def timed_codecs() -> tuple[str, ...]:
    """Names of the codecs whose speeds a machine's file may have."""
    return tuple(name for family in families() for name in family.TIMED)


def parse_codec(text: str) -> Codec:
    """The codec that a text means, such as `fp16`, `int8:6144`, `zfp:16` or `mpc`: a name, and behind a colon what the
    family takes. Raises InputError."""
    name, colon, rest = text.partition(":")
    if name not in parsers():
        raise InputError(f"codec {text!r}: {nearest(name, tuple(parsers()))}")
    return parsers()[name](text, name, rest if colon else None)
