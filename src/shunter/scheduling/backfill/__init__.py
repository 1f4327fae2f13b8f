"""Backfilling on nodes: EASY, conservative, and the bounds by which jobs are planned."""
