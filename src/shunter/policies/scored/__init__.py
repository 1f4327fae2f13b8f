"""A learned order: its key is a model in a file."""

from shunter.policies.scored.policy import Scored as Scored
