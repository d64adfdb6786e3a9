from .command_line import program as program, run_to_end as run_to_end
from .console import plain as plain, print_json as print_json
from .entry_point import main as main
from .options import Plans as Plans, Settings as Settings, byte_sizes as byte_sizes, load as load
from .terminal.crosscheck import crosscheck_document as crosscheck_document, print_check as print_check
from .typer_app import app_of as app_of
