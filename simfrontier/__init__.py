"""simfrontier: how would this training plan run on that machine? Plans are placements; schedules follow from them."""

__version__ = "0.1.0"
