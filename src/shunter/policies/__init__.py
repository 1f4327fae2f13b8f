"""One file per policy, found by its name: no registration."""
