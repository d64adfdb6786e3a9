from .console import finite as finite, plain as plain
from .crosscheck import crosscheck_of as crosscheck_of, json_document as json_document, print_check as print_check
from .entry_point import main as main
from .export import write_simulated as write_simulated
from .options import Plans as Plans, Settings as Settings, byte_sizes as byte_sizes, load as load, to_write as to_write
from .typer_app import app_of as app_of
