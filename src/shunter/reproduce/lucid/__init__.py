"""Lucid (Hu et al., ASPLOS 2023): its schedulers and ablations on Venus."""
