"""Collectives: what they move, and what a library would do to move it."""

from simfrontier.collectives.library import Algorithm, GroupShape, HopTimes, Library
from simfrontier.collectives.load import libraries, load_library
from simfrontier.collectives.volume import Message, messages_of, sent_share, whole_side, wire_of

__all__ = [
    "Algorithm",
    "GroupShape",
    "HopTimes",
    "Library",
    "Message",
    "libraries",
    "load_library",
    "messages_of",
    "sent_share",
    "whole_side",
    "wire_of",
]
