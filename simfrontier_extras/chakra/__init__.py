"""Steps as execution traces in the format of MLCommons Chakra: `simfrontier export --format chakra`."""
