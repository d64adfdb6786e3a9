"""The version of simfrontier."""

__version__ = "0.3.0"
