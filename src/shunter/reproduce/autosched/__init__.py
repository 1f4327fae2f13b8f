"""AutoSched (Gao et al., ICS 2024): schedulers that configure themselves."""
