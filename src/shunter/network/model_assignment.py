"""Models for jobs that don't name one, so that a trace without models can be run on a network."""

from __future__ import annotations

import dataclasses

import numpy as np

from shunter.model import Trace
from shunter.seeding import rng
from shunter.texts import counted

DRAWN = ("vgg11", "alexnet", "mobilenetv3", "resnet18", "resnet50", "bert-large")  # those of Dally's Table I


def with_models(trace: Trace, seed: int) -> Trace:
    """The trace in which every job has a model: its own, or one of ``DRAWN``, each as likely, by the seed alone."""
    without = trace.model < 0
    if not without.any():
        return trace
    drawn = rng(seed, "models").integers(len(DRAWN), size=len(trace))  # one for every job: others don't shift
    names = tuple(dict.fromkeys((*trace.models, *DRAWN)))
    code = np.array([names.index(name) for name in DRAWN], np.int64)
    remark = f"{counted(int(without.sum()), 'job', 'name')} no model: each got one of {', '.join(DRAWN)} by chance"
    model = np.where(without, code[drawn], trace.model)
    return dataclasses.replace(trace, model=model, models=names, remarks=(*trace.remarks, remark))
