"""Reading: a text as a bounded document, a document as the frozen value that the program uses, a fault as one line."""

from simfrontier.io.bounds import (
    AtLeastOne,
    Derived,
    Deviation,
    Kind,
    Names,
    NotNegative,
    Part,
    Positive,
    Share,
    Sourced,
    Switch,
    Text,
)
from simfrontier.io.text import json_of, no_fraction, read_json, read_toml, refuse_unfit, toml_of
from simfrontier.io.typed import checked, typed

__all__ = [
    "AtLeastOne",
    "Derived",
    "Deviation",
    "Kind",
    "Names",
    "NotNegative",
    "Part",
    "Positive",
    "Share",
    "Sourced",
    "Switch",
    "Text",
    "checked",
    "json_of",
    "no_fraction",
    "read_json",
    "read_toml",
    "refuse_unfit",
    "toml_of",
    "typed",
]
