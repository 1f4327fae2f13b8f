"""What Lucid expects to be submitted soon: by a model learned from the past, else as much as in the last hour."""

from __future__ import annotations

from shunter.predictors.throughput import AHEAD, BIN_MS, Arrivals, look_ahead, note_arrival

LAST_HOUR = 6  # bins


class Outlook:
    """Jobs and GPUs in ten minutes, mean over the next bins."""

    def __init__(self, model: Arrivals | None) -> None:
        self._model = model
        self._recent: list[tuple[int, int]] = []  # bin and GPUs of what came in the last hour
        self.jobs = self.gpus = 0.0

    def note(self, now: int, gpus: int) -> None:
        """A job was submitted."""
        if self._model is not None:
            note_arrival(self._model, float(gpus), now)
        else:
            self._recent.append((now // BIN_MS, gpus))

    def look(self, now: int) -> None:
        """Look ahead from the beginning of a bin."""
        if self._model is not None:
            look_ahead(self._model, now)
            self.jobs, self.gpus = self._model.ahead[:, : AHEAD - 1].mean(axis=1).tolist()
            return
        self._recent = [(at, gpus) for at, gpus in self._recent if at >= now // BIN_MS - LAST_HOUR]
        over = [gpus for at, gpus in self._recent if at < now // BIN_MS]
        self.jobs, self.gpus = len(over) / LAST_HOUR, sum(over) / LAST_HOUR
