"""Cluster energy saving: idle nodes sleep.  Hu et al., SC 2021 (Helios)."""

from shunter.policies.ces.policy import Ces as Ces
