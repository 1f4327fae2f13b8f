"""Qore-DL: J. Systems Architecture 130:102640, 2022."""

from shunter.policies.qoredl.policy import Qoredl as Qoredl
