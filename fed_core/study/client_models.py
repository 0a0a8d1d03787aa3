"""The models that a client of a run has: what its next round starts from, and what its training ended with."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from fed_core.errors import DataError
from fed_core.requests import Installation, starting_point, trained_file
from fed_core.study.base import Moment, Run
from fed_core.study.config import CENTRALISED, POOL
from fed_core.study.scenario import StudySequence
from fed_core.training.jobs import prepared_samples, start_weights
from fed_core.types import Array, ModelSignature
from fed_core.wire.codec import open_tensors


class ClientModels:
    """Loads the model of a client into the run's network.

    Args:
        run: what is scored.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._signature: ModelSignature = run.toolbox.signature(run.network, run.job.cell.model)
        self._built = run.toolbox.state_arrays(run.network)  # private parts before the first round

    def load_next(self, client: str, moment: Moment) -> str:
        """Load what the client's next round starts from, private parts included; returns a digest of it."""
        start = starting_point(moment.plan, moment.book.store, self._installation(client, moment))
        return self._load(start_weights(start, self._run.strategy, self._signature, self._built))

    def load_trained(self, client: str, moment: Moment) -> str | None:
        """Load what the client's training of the closed round ended with; None where it did not train."""
        path = trained_file(moment.plan, moment.closed.round, self._installation(client, moment))
        return None if path is None else self._load(open_tensors(path))

    def _installation(self, client: str, moment: Moment) -> Installation:
        robot = POOL if self._run.chosen.name == CENTRALISED else client
        return Installation(robot, "simulated", moment.robots / robot, {})

    def _load(self, weights: Mapping[str, Array]) -> str:
        self._run.toolbox.load_arrays(self._run.network, weights)
        self._run.network.eval()
        digest = hashlib.sha256()
        for name in self._signature.names:
            digest.update(np.ascontiguousarray(weights[name]).data)
        return digest.hexdigest()


def frames_of(run: Run, sequence: StudySequence) -> Any:
    """Return the task's data set of a sequence, in the network's size; a process reads it once."""
    config, cell = run.job.config, run.job.cell
    options = dict(config.models[cell.model].options)
    try:
        return prepared_samples(config.task, cell.model, options, run.network, sequence.source)
    except DataError as err:
        raise DataError(f"{sequence.name}: {err}") from err
