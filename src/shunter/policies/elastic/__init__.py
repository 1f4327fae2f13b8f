"""Minimal shares by deadline, spare GPUs to whoever gains most."""

from shunter.policies.elastic.policy import Elastic as Elastic
