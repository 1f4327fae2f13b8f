"""Pages for a browser: one HTML file each, which needs no network."""
