"""The command line: one thin module per command; whatever is slow to import is imported when a command runs."""
