"""Tables and small charts for a terminal of 100 columns."""
