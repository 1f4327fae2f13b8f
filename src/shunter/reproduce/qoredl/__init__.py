"""Qore-DL: deadlines met on three small testbeds."""
