"""How fast a job runs on more or fewer GPUs: measured curves first, then the network model, then published ones."""
