"""A queue in the order of a learned model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from shunter.capabilities import RemembersTraining
from shunter.cluster import Cluster
from shunter.errors import PolicyError
from shunter.model import Trace, View
from shunter.params import param
from shunter.policies.scored.evaluating import score
from shunter.policies.scored.models import BUILT_IN, NetworkForm, ScoreModel, built_in, load
from shunter.policies.scored.provenance import remarks
from shunter.policies.scored.scoring import look_and_score
from shunter.scheduling.queue.memory import pools_seen
from shunter.scheduling.queue.ordering import Ordering
from shunter.scheduling.queue.policy import BACKFILL_DOC, BACKFILLS
from shunter.scheduling.queue.queue import Queue
from shunter.world import F64, Job


@dataclass(frozen=True)
class Scored(Ordering, RemembersTraining):
    """Serves the job with the least value of a learned model, which may know the job and the nodes open to it."""

    backfill: str = param("easy", BACKFILL_DOC, choices=BACKFILLS)
    model: str = param(
        "saf",
        "the model: a file that 'shunter learn' wrote; or the order by GPUs times estimate (saf), estimate (sjf) or "
        "submission (fifo)",
        choices=tuple(BUILT_IN),
        file=True,
    )
    visible: int = param(
        0,
        "jobs in view, those submitted first; the others follow in the order of submission; 0: as the model was "
        "trained, all if that is not known",
        low=0,
        high=1_000_000,
    )

    uses_estimate = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.score_model.asks != "order":
            raise PolicyError(
                f"{self.model}: says whether the first job is to wait, so it gives no order; use the policy"
                f" inspected:model={self.model}"
            )

    @cached_property
    def score_model(self) -> ScoreModel:
        """The model itself."""
        return built_in(self.model) or load(Path(self.model))

    def training_remarks(self, trace: Trace, cluster: Cluster) -> list[str]:
        """Whether the model meets jobs again that it learned from, or another cluster."""
        return remarks(self.score_model.training, trace, cluster)

    @property
    def in_view(self) -> int:
        """How many jobs the model orders; 0: all."""
        return self.visible or self.score_model.training.visible

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """The model's value."""
        return score(job, p)

    def key_params(self) -> F64:
        """The numbers of the model."""
        return self.score_model.arrays()

    @property
    def look(self) -> Any:
        """A network is evaluated for several jobs at a time."""
        return look_and_score if isinstance(self.score_model.model, NetworkForm) else super().look

    def configured(self, queue: Queue, view: View, cluster: Cluster) -> Queue:
        """Keys are made again only as often as the features of the model, or the jobs in view, change."""
        queue = super().configured(queue, view, cluster)
        model, visible = self.score_model, self.in_view
        sees = model.sees_pool or visible > 0 or (model.ages and isinstance(model.model, NetworkForm))
        config = queue.config.replace(varying=model.ages and not sees, sees_pool=sees, visible=visible)
        return queue.replace(config=config, pools=pools_seen(view.world, queue.sample) if sees else queue.pools)
