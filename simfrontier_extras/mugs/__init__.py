"""Mugs pre-training (arXiv 2203.14415): its model, scenarios and real training; a student, a teacher, and queues."""
