"""A machine laid out on one computer at a part of its rates, to run on it what is simulated: `simfrontier emulate`."""
