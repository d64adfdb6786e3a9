"""`simfrontier validate`."""

from simfrontier.cli.measured_verbs import validate as validate
