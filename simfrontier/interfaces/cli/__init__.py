"""The command line: `main` runs it; what a verb does is in the module of its name."""

from simfrontier.interfaces.cli.program import main as main
