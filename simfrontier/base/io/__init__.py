"""Reading of files: text is parsed into a document within size limits, and a document is validated and converted to an
immutable object; every error is one line."""

from simfrontier.base.io.files import (
    comment as comment,
    flat as flat,
    frozen as frozen,
    headed as headed,
    json_of as json_of,
    left_out as left_out,
    log_text as log_text,
    no_fraction as no_fraction,
    on_base as on_base,
    read_json as read_json,
    read_toml as read_toml,
    reading as reading,
    refuse_unfit as refuse_unfit,
    text_of as text_of,
    toml_document as toml_document,
    toml_number as toml_number,
    toml_of as toml_of,
    toml_value as toml_value,
    yaml_of as yaml_of,
)
from simfrontier.base.io.forms import (
    SOURCED as SOURCED,
    AtLeastOne as AtLeastOne,
    Derived as Derived,
    Deviation as Deviation,
    External as External,
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
    Strict as Strict,
    Switch as Switch,
    Text as Text,
    extended as extended,
)
from simfrontier.base.io.node import Node as Node
from simfrontier.base.io.values import checked as checked, fault_of as fault_of, typed as typed
