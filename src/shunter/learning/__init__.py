"""Learning to schedule: episodes on windows of a trace, an environment, training, and judging on windows not seen."""
