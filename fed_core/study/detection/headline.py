"""Which FedCKA setting is the headline: chosen by held-out training scenes, before anybody looks at the test."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from fed_core.study.config import parse_label

STRATEGY = "fedcka"
#: Options that make a label one of the seven settings (fedcka spec 5); with others it is an ablation.
_GRID = frozenset({"rule", "tau", "rho", "start_round", "steps"})


@cache
def is_setting(label: str) -> bool:
    """Tell whether a label is a FedCKA setting of the grid that the headline is chosen from."""
    name, options = parse_label(label)
    return name == STRATEGY and set(options) <= _GRID


def validation_scores(results: Iterable[Mapping[str, Any]]) -> dict[str, dict[int, float]]:
    """Return the validation NDS of every FedCKA setting by seed.

    Args:
        results: trees of ``result.json`` (:mod:`fed_core.study.detection.scoring`); read are ``label``, ``seed`` and
            ``macro.validation_nds``, the mean over the clients of the last model's NDS on held-out training scenes.
    """
    found: dict[str, dict[int, float]] = {}
    for result in results:
        value = (result.get("macro") or {}).get("validation_nds")
        if is_setting(str(result["label"])) and value is not None:
            found.setdefault(str(result["label"]), {})[int(result["seed"])] = float(value)
    return found


def common_seeds(scores: Mapping[str, Mapping[int, float]]) -> list[int]:
    """Return the seeds that every setting has a score of: means over different worlds do not compare."""
    return sorted(set.intersection(*(set(seeds) for seeds in scores.values()))) if scores else []


def headline(results: Iterable[Mapping[str, Any]], labels: Sequence[str] = ()) -> str | None:
    """Return the label of the setting with the best validation NDS, mean over clients and common seeds; None without.

    No figure of a test scene is read. Of equal settings the first of ``labels`` wins.

    Args:
        results: trees of ``result.json`` of one network.
        labels: order of the study; default: that of the results.
    """
    scores = validation_scores(results)
    seeds = common_seeds(scores)
    if not seeds:
        return None
    means = {label: float(np.mean([values[seed] for seed in seeds])) for label, values in scores.items()}
    order = [label for label in labels if label in means] + [label for label in means if label not in labels]
    return max(order, key=lambda label: means[label])
