"""Estimates of what is not known yet: how long jobs run, and how many will come."""
