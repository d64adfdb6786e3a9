"""What verbs print for a person: tables and sentences."""
