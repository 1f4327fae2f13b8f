"""Settings of a policy chosen by simulating the past."""
