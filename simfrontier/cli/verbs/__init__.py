"""The verbs of the command line: the module of a verb has the function that typer calls, of the same name."""
