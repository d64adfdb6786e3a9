"""Reading: a text as a bounded document, a document as the frozen value that the program uses, a fault as one line."""

from simfrontier.io.bounds import (
    AtLeastOne,
    Derived,
    Deviation,
    Kind,
    Line,
    Names,
    NotNegative,
    Parsed,
    Part,
    Positive,
    Rule,
    Share,
    Sourced,
    Switch,
    Text,
    told,
)
from simfrontier.io.headed import headed
from simfrontier.io.text import json_of, no_fraction, read_json, read_toml, refuse_unfit, text_of, toml_of
from simfrontier.io.typed import checked, typed

__all__ = [
    "AtLeastOne",
    "Derived",
    "Deviation",
    "Kind",
    "Line",
    "Names",
    "NotNegative",
    "Parsed",
    "Part",
    "Positive",
    "Rule",
    "Share",
    "Sourced",
    "Switch",
    "Text",
    "checked",
    "headed",
    "json_of",
    "no_fraction",
    "read_json",
    "read_toml",
    "refuse_unfit",
    "text_of",
    "told",
    "toml_of",
    "typed",
]
