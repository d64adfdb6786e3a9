from .typer_app import app as app, main as main
