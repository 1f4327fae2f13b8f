"""A scheduler that chooses its own settings again and again, by simulating what may come next."""
