"""The claims of FedCKA's paper (fedcka spec 1, 9), judged seed by seed for the headline setting."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from fed_core.study.report.detection import figures, layers, traffic
from fed_core.study.report.detection.figures import clients_of, letter_of
from fed_core.study.report.detection.methods import (
    ELEMENT_MASKED,
    FEDAVG,
    LOCAL,
    headline,
    name_of,
    planned,
)
from fed_core.study.report.results import Cell, Study
from fed_core.study.report.verdicts import BySeed, Comparison, Part, compared, is_planned

#: Share of FedAvg's upload from which on one is close to it.
CLOSE = 0.9

NOTE = (
    "Difference: of NDS; of claim 5 of the Jaccard index of two seeds' personal units, less that of masks spread at "
    "random; of claim 6 of the share of FedAvg's upload. Mean over the seeds (of claim 5: pairs of seeds) ± sample "
    "standard deviation, positive speaks for the statement. Ratio: first / second."
)
CLAIMS_NOTE = (
    "FedCKA is its headline setting. Claim 3: of each other method, the worst client's NDS against training alone. "
    "Claim 4: plain and weighted, for the paper does not say which. Claim 5: here a seed changes the streets, too, "
    "while the paper repeats training on the same data; the seeds in favour are pairs; a "
    "client with nothing personal is left out. Claim 6: close means "
    f"{CLOSE:.0%} of FedAvg's bytes or more, by the paper's accounting. The paper's own figures, on nuScenes: weighted "
    "mean NDS 0.635 ± 0.008, the next federated method 0.56, own-domain-only 0.57."
)


def judge_claims(study: Study) -> list[Part]:
    """Return the paper's claims that the study has the methods for."""
    parts = [
        Part(1, "FedCKA has the best mean NDS among federated methods", _all(study, _best)),
        Part(2, "With FedCKA every client is above own-domain-only", _all(study, _every_client)),
        Part(3, "No other federated method lifts every client above own-domain-only", _all(study, _nobody_else)),
        Part(4, "FedCKA transfers best to other domains", _all(study, _transfer)),
        Part(5, "FedCKA keeps the same layers with every seed", _all(study, _stable)),
        Part(6, "FedCKA's upload is close to a full model's", _all(study, _close)),
        Part(7, "Methods with element masks upload less than FedCKA", _all(study, _less)),
    ]
    return [part for part in parts if part.comparisons]


def not_asked(study: Study) -> str:
    """Return a sentence on methods that the claims speak of and the study does not contain; or ""."""
    wanted = (LOCAL, FEDAVG, *ELEMENT_MASKED)
    gaps = {m: [name_of(label) for label in wanted if not is_planned(study, m, label)] for m in study.models}
    texts = [f"{model}: {', '.join(names)}" for model, names in gaps.items() if names]
    return f"Not in this study: {'. '.join(texts)}." if texts else ""


_Judge = Callable[[Study, str, str], Iterator[Comparison]]


def _all(study: Study, judge: _Judge) -> tuple[Comparison, ...]:
    """Return the comparisons of every network with a headline."""
    found = ((model, headline(study, model)) for model in study.models)
    return tuple(c for model, label in found if label is not None for c in judge(study, model, label))


def _best(study: Study, model: str, ours: str) -> Iterator[Comparison]:
    for other in planned(study, model):
        statement = f"FedCKA better than {name_of(other)}: weighted mean NDS"
        yield compared(model, statement, *_sides(study, model, (ours, other), figures.macro("nds")))


def _every_client(study: Study, model: str, ours: str) -> Iterator[Comparison]:
    for client in clients_of(study) if is_planned(study, model, LOCAL) else ():
        statement = f"FedCKA better than own-domain-only: {letter_of(client)}"
        yield compared(model, statement, *_sides(study, model, (ours, LOCAL), figures.own("nds", client)))


def _nobody_else(study: Study, model: str, ours: str) -> Iterator[Comparison]:
    for other in planned(study, model) if is_planned(study, model, LOCAL) else ():
        worst = {seed: min(values) for seed, values in figures.against_local(study, model, other).items()}
        nothing = dict.fromkeys(worst, 0.0)
        found = compared(model, f"{name_of(other)} leaves a client below own-domain-only", nothing, worst)
        yield replace(found, ratio=float("nan"))


def _transfer(study: Study, model: str, ours: str) -> Iterator[Comparison]:
    for other in planned(study, model):
        for how, name in (("plain", "other_nds"), ("weighted", "other_weighted_nds")):
            statement = f"FedCKA better than {name_of(other)} on other domains: {how} mean NDS"
            yield compared(model, statement, *_sides(study, model, (ours, other), figures.macro(name)))


def _stable(study: Study, model: str, ours: str) -> Iterator[Comparison]:
    runs = study.of(model, ours)
    for client in clients_of(study):
        masks = last_masks(runs, client)
        if len(masks) > 1 and not any(mask.any() for mask in masks):
            continue  # nothing is personal with any seed, so there is nothing to be alike
        ours_by_pair, chance_by_pair = agreements(runs, client)
        statement = f"personal units of two seeds alike beyond chance: {letter_of(client)}"
        yield compared(model, statement, ours_by_pair, chance_by_pair)


def last_masks(runs: Sequence[Cell], client: str) -> list[layers.Bits]:
    """Return a client's last mask of every run that has one."""
    return [mask for cell in runs if (mask := layers.last_masks(cell).get(client)) is not None]


def agreements(runs: Sequence[Cell], client: str) -> tuple[dict[int, float], dict[int, float]]:
    """Return the Jaccard index of a client's last masks and that of chance, by pair of seeds."""
    found = [pair for two in combinations(last_masks(runs, client), 2) for pair in layers.agreement(two)]
    return {n: pair[0] for n, pair in enumerate(found)}, {n: pair[1] for n, pair in enumerate(found)}


def _close(study: Study, model: str, ours: str) -> Iterator[Comparison]:
    if is_planned(study, model, FEDAVG):
        share, _ = _of_fedavg(study, model, ours)
        yield compared(
            model, f"FedCKA uploads {CLOSE:.0%} of FedAvg's bytes or more", share, dict.fromkeys(share, CLOSE)
        )


def _less(study: Study, model: str, ours: str) -> Iterator[Comparison]:
    for other in ELEMENT_MASKED if is_planned(study, model, FEDAVG) else ():
        if is_planned(study, model, other):
            share, base = _of_fedavg(study, model, ours)
            theirs = study.values(model, other, traffic.accounted)
            less = {seed: theirs[seed] / base[seed] for seed in theirs.keys() & base.keys() if base[seed]}
            yield compared(model, f"{name_of(other)} uploads less than FedCKA", share, less)


def _of_fedavg(study: Study, model: str, label: str) -> tuple[dict[int, float], BySeed]:
    base = study.values(model, FEDAVG, traffic.accounted)
    ours = study.values(model, label, traffic.accounted)
    return {seed: ours[seed] / base[seed] for seed in ours.keys() & base.keys() if base[seed]}, base


def _sides(study: Study, model: str, labels: tuple[str, str], get: figures.Reader) -> tuple[BySeed, BySeed]:
    first, second = (study.values(model, label, get) for label in labels)
    return first, second
