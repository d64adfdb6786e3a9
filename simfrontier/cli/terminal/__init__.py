"""Output of verbs: tables and sentences for a person, and the documents of --json for a program."""
