"""The command line: `main` runs it; each verb is implemented in the module of the same name."""

from simfrontier.interfaces.cli.program import main as main
