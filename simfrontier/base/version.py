"""The version of simfrontier."""

__version__ = "0.1.0"
