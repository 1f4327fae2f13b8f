"""Lucid: Hu et al., ASPLOS 2023."""

from shunter.policies.lucid.policy import Lucid as Lucid
