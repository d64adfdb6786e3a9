"""Reports: pages, tables and files of a study and of single verbs. Import from the modules."""
