"""Two jobs on one GPU: what was measured, what that does to their speeds, and which jobs go together."""
