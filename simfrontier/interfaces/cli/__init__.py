"""The command line: `app` has all verbs; what a verb does is in modules of its name."""

from simfrontier.interfaces.cli.console import plain as plain, print_json as print_json
from simfrontier.interfaces.cli.entry_point import main as main
from simfrontier.interfaces.cli.options import (
    Plans as Plans,
    Settings as Settings,
    byte_sizes as byte_sizes,
    load as load,
)
from simfrontier.interfaces.cli.terminal.crosscheck import (
    crosscheck_document as crosscheck_document,
    print_check as print_check,
)
from simfrontier.interfaces.cli.typer_app import app_of as app_of
