"""The real half of simfrontier: executes a schedule file on real processes, to replay, train or measure."""
