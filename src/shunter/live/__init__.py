"""Policies on any live cluster; a resource manager such as Slurm is an adapter to it."""
