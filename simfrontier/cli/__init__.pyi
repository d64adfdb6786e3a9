from .console import plain as plain
from .options import to_write as to_write
from .typer_app import app as app, main as main
