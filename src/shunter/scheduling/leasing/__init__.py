"""Policies that lease GPUs for a while: the memory, the offers, one decision."""
