"""RLTune's experiment on a live Slurm cluster, in small, on virtual nodes."""
