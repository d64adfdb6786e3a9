"""Reading: a text as a bounded document, a document as the frozen value that the program uses, a fault as one line."""

from simfrontier.base.io.based import headed as headed, on_base as on_base
from simfrontier.base.io.bounds import (
    SOURCED as SOURCED,
    AtLeastOne as AtLeastOne,
    Derived as Derived,
    Deviation as Deviation,
    Kind as Kind,
    Line as Line,
    Names as Names,
    NotNegative as NotNegative,
    Parsed as Parsed,
    Part as Part,
    Positive as Positive,
    Rule as Rule,
    Share as Share,
    Sourced as Sourced,
    Switch as Switch,
    Text as Text,
)
from simfrontier.base.io.log import left_out as left_out, log_text as log_text
from simfrontier.base.io.model import External as External, Strict as Strict, extended as extended
from simfrontier.base.io.node import Node as Node
from simfrontier.base.io.text import (
    frozen as frozen,
    json_of as json_of,
    no_fraction as no_fraction,
    read_json as read_json,
    read_toml as read_toml,
    reading as reading,
    refuse_unfit as refuse_unfit,
    text_of as text_of,
    toml_of as toml_of,
)
from simfrontier.base.io.toml_file import comment as comment, toml_document as toml_document
from simfrontier.base.io.toml_text import toml_number as toml_number, toml_value as toml_value
from simfrontier.base.io.values import checked as checked, fault_of as fault_of, typed as typed
