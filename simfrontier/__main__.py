"""`python -m simfrontier` is the command line."""

from simfrontier.interfaces.cli import main

main()
