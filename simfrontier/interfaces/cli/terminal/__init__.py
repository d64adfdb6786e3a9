"""Output of the verbs: tables and sentences for people, and the documents of --json."""
