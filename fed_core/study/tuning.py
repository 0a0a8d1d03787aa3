"""Chooses one option on the clients' own held-out frames; no unseen sequence is opened for it (fedepth spec 3.4)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fed_core.study.config import Ablations, Cell, StudyConfig, cells_of

#: Share of the held-out frames that chooses: they are few, and a choice needs some.
PREFIX_SHARE = 0.5
METRIC = "abs_rel"


def tuning_config(config: StudyConfig) -> StudyConfig:
    """Return the study that tries the candidates, one seed each."""
    tuning = config.tuning
    labels = tuple(f"{tuning.strategy}:{tuning.parameter}={value:g}" for value in tuning.values)
    settings = replace(config.models[tuning.model], strategies=labels, rounds=tuning.rounds)
    return replace(
        config,
        models={tuning.model: settings},
        seeds=1,
        descriptor_share=PREFIX_SHARE,
        score_step=1,
        ablations=Ablations(),
    )


def outcome(config: StudyConfig, results: Mapping[Cell, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the candidates' figures and the best value; between equals the first listed."""
    tuning = config.tuning
    cells = cells_of(tuning_config(config))
    table = {
        f"{value:g}": {**results[cell]["macro"], "num_clusters": results[cell]["num_clusters"]}
        for value, cell in zip(tuning.values, cells, strict=True)
    }
    chosen = min(tuning.values, key=lambda value: float(table[f"{value:g}"][METRIC]))
    return {"what": f"{tuning.strategy}.{tuning.parameter}", "values": table, "chosen": chosen, "by": METRIC}


def with_choice(config: StudyConfig, chosen: float) -> StudyConfig:
    """Return the study with the chosen value as the default of the strategies that share it."""
    tuning = config.tuning
    options = {name: dict(values) for name, values in config.strategy_options.items()}
    for name in dict.fromkeys((tuning.strategy, *tuning.shared_with)):
        options.setdefault(name, {})[tuning.parameter] = chosen
    return replace(config, strategy_options=options)
