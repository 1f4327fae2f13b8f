"""Dally's evaluation: six schedulers, two workloads, four cluster sizes (arXiv 2401.16492, sections V and VI)."""
