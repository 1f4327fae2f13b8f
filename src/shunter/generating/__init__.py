"""Workloads that may come next: arrivals like those of past hours, and run times of jobs that are not finished."""
