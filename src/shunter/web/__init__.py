"""The page for a browser: runs to look at, what-ifs to try, policies to learn, a live cluster to watch (extra ``web``)."""
