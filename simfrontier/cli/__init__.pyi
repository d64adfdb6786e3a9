from .console import finite as finite, plain as plain
from .entry_point import main as main
from .options import Plans as Plans, Settings as Settings, byte_sizes as byte_sizes, load as load, to_write as to_write
from .terminal.crosscheck import json_document as json_document, print_check as print_check
from .typer_app import app_of as app_of
