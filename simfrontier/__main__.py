"""`python -m simfrontier` is the command line."""

from simfrontier.cli import main

main()
