"""Published experiments, run again: their figures and ours side by side."""
