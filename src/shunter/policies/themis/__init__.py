"""Themis: finish-time fairness by auctions: Mahajan et al., NSDI 2020."""

from shunter.policies.themis.policy import Themis as Themis
