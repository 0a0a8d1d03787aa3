"""Figures of a bird's eye run: every client's test IoU over the rounds, and the rounds that are reported."""

from collections.abc import Mapping, Sequence
from typing import Any

from fed_core.data.opv2v.maps import fit_map
from fed_core.study.base import Line, Moment, Run, Scores
from fed_core.study.bev import evaluation, pictures
from fed_core.study.bev.evaluation import Scored, mean, read_scored
from fed_core.study.client_models import ClientModels
from fed_core.study.scenario import TEST, VALIDATION

METRICS = ("iou_global", "iou_frame")
#: Evaluations whose mean is reported.
LAST = 10
#: Figures that robots send, under their names in a round's line.
_TOLD = {"own_control_norm", "drift", "q_over_s", "q_gradient_share", "step_divergence", "divergence_floor"}


class BevScores(Scores):
    """Scores every client on its own test frames, and on those that choose its round.

    Args:
        run: what is scored.
    """

    def __init__(self, run: Run) -> None:
        self._run, self._models = run, ClientModels(run)
        self._scored: dict[tuple[str, str], Scored] = {(s.owner, s.sequence.split): s for s in read_scored(run)}
        self._clients = tuple(client.name for client in run.job.scenario.clients)
        self._show = {}
        if run.job.panels:
            self._show = {client: evaluation.middle_frame(self._scored[client, TEST]) for client in self._clients}

    def round(self, moment: Moment, lines: Sequence[Line]) -> dict[str, Any]:
        """Return the figures of a round; clients are scored in every ``score_step``-th and the last."""
        step = self._run.job.config.bev.score_step
        evaluated = moment.plan.finished or moment.closed.round % step == 0
        clients = {client: self._score(client, moment) for client in self._clients} if evaluated else {}
        for client, frame in self._show.items() if evaluated else ():
            before = [reached(line["clients"][client], VALIDATION) for line in lines if client in line["clients"]]
            if reached(clients[client], VALIDATION) > max(before, default=-2.0):
                self._models.load_next(client, moment)
                pictures.save_map(self._run.folder / "panels" / f"{client}.png", evaluation.predict(self._run, frame))
        macro = {name: mean([found[TEST][name] for found in clients.values()]) for name in METRICS}
        return {"evaluated": evaluated, "clients": clients, "macro": macro, **_told(moment)}

    def result(self, moment: Moment, lines: Sequence[Line]) -> dict[str, Any]:
        """Return best, honest and last rounds of each client, and their unweighted means."""
        clients = {client: client_figures(client, lines) for client in self._clients}
        for name, found in clients.items():
            trained = self._models.load_trained(name, moment)
            found["trained"] = evaluation.score(self._run, self._scored[name, TEST]) if trained else None
        for client in self._run.job.scenario.clients:
            scored = self._scored[client.name, TEST]
            clients[client.name]["constant"] = evaluation.constant_map(self._run, client, scored)
        if self._show:
            self._save_truth()
        return {"clients": clients, "macro": macro(clients)}

    def _score(self, client: str, moment: Moment) -> dict[str, dict[str, float | None]]:
        self._models.load_next(client, moment)
        return {split: evaluation.score(self._run, self._scored[client, split]) for split in (TEST, VALIDATION)}

    def _save_truth(self) -> None:
        job = self._run.job
        network: Any = self._run.network
        folder = job.folder / "panels" / f"seed{job.cell.seed}"
        for client, frame in self._show.items():
            mask, known = fit_map(frame, network.map_size, network.extent_m)
            pictures.save_truth(folder, client, frame, mask, known)


def client_figures(client: str, lines: Sequence[Line]) -> dict[str, Any]:
    """Return the reported rounds of one client.

    Args:
        client: which one.
        lines: of all rounds.

    Returns:
        best: round of the best test IoU, chosen on the test frames. honest: round of the best IoU on the validation
        frames, the first of equals. last: the last evaluation. last10: mean of the last ten.
    """
    rows = [(int(line["round"]), line["clients"][client]) for line in lines if client in line["clients"]]

    def top(split: str) -> int:
        return max(range(len(rows)), key=lambda place: (reached(rows[place][1], split), -place))

    def at(place: int) -> dict[str, Any]:
        return {"round": rows[place][0], **{name: rows[place][1][TEST][name] for name in METRICS}}

    honest, late = top(VALIDATION), rows[-LAST:]
    return {
        "best": at(top(TEST)),
        "honest": {**at(honest), "validation_iou": rows[honest][1][VALIDATION]["iou_global"]},
        "last": at(len(rows) - 1),
        "last10": {"count": len(late), **{name: mean([row[TEST][name] for _, row in late]) for name in METRICS}},
    }


def macro(clients: Mapping[str, Mapping[str, Any]]) -> dict[str, float | None]:
    """Return the means over the clients, each counting once; the headline is that of the honest rounds."""

    def over(part: str, name: str) -> float | None:
        return mean([(found[part] or {}).get(name) for found in clients.values()])

    return {
        "iou_global": over("honest", "iou_global"),
        "iou_frame": over("honest", "iou_frame"),
        "best_iou_global": over("best", "iou_global"),
        "last10_iou_global": over("last10", "iou_global"),
        "trained_iou_global": over("trained", "iou_global"),
        "constant_iou_global": over("constant", "iou_global"),
    }


def reached(row: Mapping[str, Any], split: str) -> float:
    """Return the IoU of a client's row; less than any IoU where there is none."""
    value = row[split]["iou_global"]
    return -1.0 if value is None else float(value)


def _told(moment: Moment) -> dict[str, Any]:
    """Return what robots and strategy told of a round."""
    reports, log = moment.closed.reports, moment.closed.log
    told = {
        name: {report.robot_id: report.scalars[name] for report in reports if name in report.scalars}
        for name in sorted(_TOLD)
    }
    return {
        "losses": {report.robot_id: report.loss for report in reports},
        "divergence": log.get("divergence") or {},
        "weights": log.get("weights") or {},
        "control_norm": log.get("control_norm"),
        "dropped": log.get("dropped") or {},
        **told,
    }
