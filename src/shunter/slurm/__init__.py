"""The adapter to Slurm: reads its state and changes its jobs."""
