"""What the verbs of the command line do, one file each; imported only when the verb is used."""
