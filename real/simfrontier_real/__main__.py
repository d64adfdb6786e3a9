"""`python -m simfrontier_real`, as torchrun starts it."""

from simfrontier_real.cli import main

main()
