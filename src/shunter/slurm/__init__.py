"""Slurm: what it says of itself, in our words, and a controller that runs our policies on it."""
