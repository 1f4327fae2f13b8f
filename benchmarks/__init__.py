"""Measures every number that shunter aims for: ``./scripts/bench``."""
