"""Policies that give jobs more or fewer GPUs: what they know of each job, where widths go, and when they look again."""
