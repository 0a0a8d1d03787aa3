"""The claims of FedDWA's paper (feddwa spec 10), and controls, judged seed by seed for every client.

All are about the IoU on the client's own test frames in the round that its validation frames chose.
"""

from collections.abc import Iterator, Sequence

from fed_core.study.report.bev.figures import MEAN, clients_of, headline
from fed_core.study.report.bev.methods import (
    DIRECTION,
    FEDAVG_DALOSS,
    FEDBEVT,
    FEDBEVT_DALOSS,
    FEDDWA,
    FEDDWA_DALOSS,
    FEDPROX,
    SCAFFOLD,
    name_of,
    planned,
)
from fed_core.study.report.results import Study
from fed_core.study.report.verdicts import BySeed, Comparison, Part, compared, is_planned

NOTE = (
    "Difference: of IoU in points (of claim 5: of the gain, IoU / IoU of FedBEVT); mean over the seeds ± sample "
    "standard deviation, positive speaks for the statement. Ratio: first / second. “mean”: over all clients."
)
CLAIMS_NOTE = (
    "By default FedDWA keeps the optimiser's moments over the rounds and counts robots equally in the mean of the "
    "models; FedBEVT and the other methods start the optimiser anew in every round and weigh by samples. Claims 1, 4 "
    "and 5 hold these differences, too."
)
CONTROLS_NOTE = (
    "FedDWA with uniform weights is SCAFFOLD but for two defaults: the mean of the models counts robots equally, not "
    "by samples, and the optimiser's moments persist over the rounds. So only 7 and 8 are about the KL weights alone; "
    "if neither uniform nor inverse weights are worse, the KL weighting does nothing. DALoss is FedProx "
    "with a factor that the KL divergence sets; FedBEVT keeps its camera geometry private, too, so that only the "
    "comparison on FedAvg is about that factor alone."
)

_UNIFORM, _INVERSE = (f"{FEDDWA}:{DIRECTION}={direction}" for direction in ("uniform", "inverse"))
_TRUCK = "truck"


def judge_claims(study: Study) -> list[Part]:
    """Return the paper's claims that the study has the methods for."""
    parts = [
        Part(1, "FedDWA is better than FedBEVT for every client", _pairs(study, FEDDWA, [FEDBEVT])),
        Part(2, "DALoss adds to FedDWA for every client", _pairs(study, FEDDWA_DALOSS, [FEDDWA])),
        Part(3, "DALoss adds to FedBEVT for every client", _pairs(study, FEDBEVT_DALOSS, [FEDBEVT])),
        Part(4, "FedDWA + DALoss is the best method for every client", tuple(_best(study))),
        Part(5, "FedDWA gains most on the truck, relative to FedBEVT", tuple(_gains(study))),
    ]
    return [part for part in parts if part.comparisons]


def judge_controls(study: Study) -> list[Part]:
    """Return what tells whether the KL divergence itself does anything."""
    parts = [
        Part(6, "The KL weights matter: FedDWA is better than SCAFFOLD", _pairs(study, FEDDWA, [SCAFFOLD])),
        Part(7, "The KL weights matter: increasing is better than uniform", _pairs(study, FEDDWA, [_UNIFORM])),
        Part(8, "Their direction matters: increasing is better than inverse", _pairs(study, FEDDWA, [_INVERSE])),
        Part(
            9, "The KL factor matters: DALoss on FedAvg is better than FedProx", _pairs(study, FEDAVG_DALOSS, [FEDPROX])
        ),
        Part(10, "FedBEVT + DALoss is better than FedProx", _pairs(study, FEDBEVT_DALOSS, [FEDPROX])),
    ]
    return [part for part in parts if part.comparisons]


def not_asked(study: Study) -> str:
    """Return a sentence on methods that the claims and controls speak of and the study does not contain; or ""."""
    wanted = (FEDBEVT, FEDBEVT_DALOSS, FEDDWA, FEDDWA_DALOSS, FEDPROX, SCAFFOLD, _UNIFORM, _INVERSE)
    gaps = {m: [name_of(label) for label in wanted if not is_planned(study, m, label)] for m in study.models}
    texts = [f"{model}: {'; '.join(names)}" for model, names in gaps.items() if names]
    return f"Not in this study, so nothing is said about them: {'. '.join(texts)}." if texts else ""


def _pairs(study: Study, better: str, worse: Sequence[str]) -> tuple[Comparison, ...]:
    """Compare for every client and for their mean; nothing where the study does not contain both."""
    return tuple(
        compared(
            model,
            f"{name_of(better)} better than {name_of(other)}: {client}",
            study.values(model, better, headline(client)),
            study.values(model, other, headline(client)),
        )
        for model in study.models
        for other in worse
        if is_planned(study, model, better, other)
        for client in (*clients_of(study), MEAN)
    )


def _best(study: Study) -> Iterator[Comparison]:
    for model in study.models:
        others = [label for label in planned(study, model) if label != FEDDWA_DALOSS]
        yield from (c for c in _pairs(study, FEDDWA_DALOSS, others) if c.model == model)


def _gains(study: Study) -> Iterator[Comparison]:
    platforms = {str(c.get("name")): str(c.get("platform")) for c in study.plan.get("clients") or []}
    trucks = [name for name, platform in platforms.items() if platform == _TRUCK]
    for model in study.models:
        for label in (FEDDWA, FEDDWA_DALOSS):
            if not is_planned(study, model, label, FEDBEVT):
                continue
            for truck in trucks:
                for other in (name for name in platforms if name not in trucks):
                    sides = (_gain(study, model, label, client) for client in (truck, other))
                    yield compared(model, f"gain of {name_of(label)} on {truck} above that on {other}", *sides)


def _gain(study: Study, model: str, label: str, client: str) -> BySeed:
    """Return IoU / IoU of FedBEVT by seed, without seeds where FedBEVT finds nothing."""
    ours, base = (study.values(model, name, headline(client)) for name in (label, FEDBEVT))
    return {seed: ours[seed] / base[seed] for seed in ours.keys() & base.keys() if base[seed] > 0}
