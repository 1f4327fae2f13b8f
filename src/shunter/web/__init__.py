"""The page for a browser: runs, what-ifs, policies, a live cluster (extra ``web``)."""
