"""Verbs of the command line: the module of each verb has the typer function of the same name."""
