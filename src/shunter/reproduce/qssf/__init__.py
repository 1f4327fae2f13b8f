"""Helios' QSSF (Hu et al., SC 2021): its order against FIFO, SJF and SRTF, on Philly, Venus and AAIC."""
