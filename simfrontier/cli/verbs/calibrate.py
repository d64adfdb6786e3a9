"""`simfrontier calibrate`."""

from simfrontier.cli.measured_verbs import calibrate as calibrate
