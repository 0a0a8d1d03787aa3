"""Figures of a detection run: NDS on held-out scenes over the rounds, and every client's last model on all domains.

``result.json`` holds, beside what every run has (:mod:`fed_core.study.cell`); *figures* are those of
:func:`fed_core.study.detection.evaluation.figures_tree`:

    domains: {domain: {scenes, frames, classes, named}}; scenes scored, classes with a true box after the devkit's
        filter, and before it (as the released code counts)
    clients: {client: {domains: {domain: figures}, validation: figures | None, trained: figures | None}}; the model W_i
        after the last merge on each domain's test scenes and on the client's held-out training scenes, and the model
        V_i before that merge on its own domain
    matrix: {nds | map | cap: {client: {domain: value}}}; cap None where a domain has no car
    transfer: {nds | map: {own_mean, own_weighted, other_mean, other_weighted}}
    macro: {nds, map, cap, plain_nds, other_nds, other_weighted_nds, trained_nds, validation_nds}; nds, map, cap and
        trained_nds are means over the own domains weighted by test scenes, validation_nds the plain mean over clients
    one_model: all clients end with the same model
    units: [{name, entries, module, tensors}] that masks switch, in the order of their bits, module the class of the
        first tensor's owner; [] where the method has none
    layers: [{name, units}] that have a CKA score, in network order; units are places in ``units``
    personal: {client: {units, entries, share}} after the last round: what stays on the robot; units None without masks;
        {} for methods that federate nothing
    entries: numbers in the floating tensors of the model, P

A line of ``rounds.jsonl`` holds

    evaluated: held-out scenes were scored; validation: {client: figures | None}; macro: {nds, map}, means over clients
    losses: {client: loss}
    masks: {client: "1011..."}; 1 = the unit is shared; {} in rounds without masks
    cka: {client: {layer: score}}; {} in rounds without a probe, and without layers that have no score
    chance: {layer: score}; what random features of the same shape would score, mean over the clients
    told: {name: {client: number}}; other figures that robots send: personal_ratio, personal_units, probe_seconds,
        probe_frames, below_tau/0.25 and distance_above_tau/0.25 (layers that a threshold picks under both readings)
    log: the strategy's own figures
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fed_core.metrics.detection.devkit import finite
from fed_core.metrics.detection.scores import plain_mean, transfer, weighted_mean
from fed_core.study.base import Line, Moment, Run, Scores
from fed_core.study.client_models import ClientModels
from fed_core.study.detection import evaluation, pictures, told
from fed_core.study.detection.evaluation import Scored, read_scored
from fed_core.study.scenario import TEST, VALIDATION

METRICS = ("nds", "map", "cap")


class DetectionScores(Scores):
    """Scores every client on its held-out scenes, and at the end on all domains.

    Args:
        run: what is scored.
    """

    def __init__(self, run: Run) -> None:
        evaluation.to_device(run)
        self._run, self._models = run, ClientModels(run)
        scored = read_scored(run)
        self._tests: dict[str, Scored] = {s.domain: s for s in scored if s.sequence.split == TEST}
        self._held: dict[str, Scored] = {s.domain: s for s in scored if s.sequence.split == VALIDATION}
        self._clients = tuple(client.name for client in run.job.scenario.clients)
        self._known: dict[tuple[str, str], dict[str, Any]] = {}

    def round(self, moment: Moment, lines: Sequence[Line]) -> dict[str, Any]:
        """Return the figures of a round; held-out scenes are scored in every ``score_step``-th and the last."""
        step = self._run.job.config.detection.score_step
        evaluated = moment.plan.finished or moment.closed.round % step == 0
        found = {client: self._validate(client, moment) for client in self._clients} if evaluated else {}
        there = {client: figures for client, figures in found.items() if figures is not None}
        macro = {name: finite(plain_mean({c: f[name] for c, f in there.items()})) for name in ("nds", "map")}
        return {"evaluated": evaluated, "validation": found, "macro": macro, **told.of_round(moment)}

    def result(self, moment: Moment, lines: Sequence[Line]) -> dict[str, Any]:
        """Return the cross-domain matrix and what follows from it; see the head of this module."""
        clients: dict[str, dict[str, Any]] = {}
        digests = set()
        for client in self._clients:
            digest = self._models.load_next(client, moment)
            digests.add(digest)
            domains = {name: self._score(digest, scored) for name, scored in self._tests.items()}
            clients[client] = {"domains": domains, "validation": self._validated(client, digest)}
            self._show(client)
        for client in self._clients:
            trained = self._models.load_trained(client, moment)
            clients[client]["trained"] = None if trained is None else self._score(trained, self._tests[client])
        return {
            "domains": {name: _domain(scored) for name, scored in self._tests.items()},
            "clients": clients,
            **summary(clients, {name: _num_scenes(scored) for name, scored in self._tests.items()}),
            "one_model": len(digests) == 1,
            **told.at_the_end(self._run, lines),
        }

    def _validate(self, client: str, moment: Moment) -> dict[str, Any] | None:
        if client not in self._held:
            return None
        return self._validated(client, self._models.load_next(client, moment))

    def _validated(self, client: str, digest: str) -> dict[str, Any] | None:
        return self._score(digest, self._held[client]) if client in self._held else None

    def _score(self, digest: str, scored: Scored) -> dict[str, Any]:
        """Return the figures of the loaded model; one that was scored there is not scored again."""
        key = (digest, scored.sequence.name)
        if key not in self._known:
            if len(self._known) > 100:  # those of earlier rounds
                self._known.clear()
            self._known[key] = evaluation.score(self._run, scored)
        return self._known[key]

    def _show(self, client: str) -> None:
        """Write pictures of the loaded model on its own domain."""
        job = self._run.job
        if not job.panels:
            return
        frame = evaluation.middle_frame(self._tests[client])
        said = evaluation.predict_frame(self._run, frame)
        pictures.save_panels(self._run.folder / "panels", client, frame, said)
        pictures.save_truth(job.folder / "panels" / f"seed{job.cell.seed}", client, frame)


def summary(clients: Mapping[str, Mapping[str, Any]], scenes: Mapping[str, int]) -> dict[str, Any]:
    """Return matrix, transfer and macro figures.

    Args:
        clients: domains, validation and trained of each.
        scenes: test scenes by domain.
    """
    matrix = {
        name: {
            client: {d: figures[name] for d, figures in found["domains"].items()} for client, found in clients.items()
        }
        for name in METRICS
    }
    own = {name: {client: _number(row[client]) for client, row in matrix[name].items()} for name in METRICS}
    across = {name: transfer(matrix[name], scenes) for name in ("nds", "map")}
    trained = {c: found["trained"]["nds"] for c, found in clients.items() if found["trained"] is not None}
    held = {c: found["validation"]["nds"] for c, found in clients.items() if found["validation"] is not None}
    macro = {
        **{name: weighted_mean(own[name], scenes) for name in METRICS},
        "plain_nds": across["nds"].own_mean,
        "other_nds": across["nds"].other_mean,
        "other_weighted_nds": across["nds"].other_weighted,
        "trained_nds": weighted_mean(trained, scenes),
        "validation_nds": plain_mean(held),
    }
    parts = ("own_mean", "own_weighted", "other_mean", "other_weighted")
    return {
        "matrix": matrix,
        "transfer": {name: {part: finite(getattr(found, part)) for part in parts} for name, found in across.items()},
        "macro": {name: finite(value) for name, value in macro.items()},
    }


def _domain(scored: Scored) -> dict[str, Any]:
    truth = scored.truth
    return {
        "scenes": _num_scenes(scored),
        "frames": len(scored.places),
        "classes": list(truth.classes),
        "named": list(truth.named),
    }


def _num_scenes(scored: Scored) -> int:
    return len(scored.sequence.source.options["scenes"])


def _number(value: float | None) -> float:
    return float(np.nan) if value is None else float(value)
