"""Gandiva: Xiao et al., OSDI 2018; by default as Dally's authors compare with it, Sharma et al., IEEE Big Data 2025."""

from shunter.policies.gandiva.policy import Gandiva as Gandiva
