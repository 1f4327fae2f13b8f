"""Shunter: schedules deep-learning jobs on GPU clusters."""
