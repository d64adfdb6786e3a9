"""Reading: a text as a bounded document, a document as the frozen value that the program uses, a fault as one line."""

from simfrontier.io.based import on_base as on_base
from simfrontier.io.bounds import (
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
from simfrontier.io.headers import headed as headed
from simfrontier.io.log import left_out as left_out, log_text as log_text, plain_log as plain_log
from simfrontier.io.model import External as External, Strict as Strict, extended as extended
from simfrontier.io.node import Node as Node
from simfrontier.io.text import (
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
from simfrontier.io.toml_file import comment as comment, toml_document as toml_document
from simfrontier.io.toml_text import toml_number as toml_number, toml_value as toml_value
from simfrontier.io.values import checked as checked, fault_of as fault_of, typed as typed
