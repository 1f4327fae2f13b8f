"""AutoSched (Gao et al., SoCC 2024): schedulers that configure themselves."""
