"""Study files: labels, runs, and the mistakes people make in them."""

import re

import pytest

from fed_core.errors import ConfigError, UnknownNameError
from fed_core.study.config import Cell, cells_of, parse_label
from tests.core.study.small import config


def test_label_carries_options() -> None:
    assert parse_label("fedavg") == ("fedavg", {})
    assert parse_label("fedepth:method=cliques+tau_quantile=0.1+noise_correction=true") == (
        "fedepth",
        {"method": "cliques", "tau_quantile": 0.1, "noise_correction": True},
    )
    assert parse_label("fedprox:mu=1e-3") == ("fedprox", {"mu": 1e-3})
    for label, part in (
        ("fedepth:cliques", "cliques"),
        ("fedepth:", ""),
        ("fedepth:bn=moments+", ""),
        ("fedepth:bn=", "bn="),
        ("fedepth:bn=average+bn=moments", "bn=moments"),
    ):
        with pytest.raises(
            ConfigError, match=f"'{re.escape(label)}': '{part}' is no option, or one given twice; write"
        ):
            parse_label(label)
    with pytest.raises(ConfigError, match=r"'fedepth:bn=\[': '\[' is no value"):
        parse_label("fedepth:bn=[")
    with pytest.raises(ConfigError, match="'fedepth:tau=2026-13-01': '2026-13-01' is no value"):
        parse_label("fedepth:tau=2026-13-01")


def test_label_lies_over_the_studys_options() -> None:
    study = config("fedepth", strategy_options={"fedepth": {"bn": "moments", "link": "min"}})

    chosen = study.strategy_of("fedepth:link=max+descriptor_frames=4")

    assert chosen.name == "fedepth"
    assert chosen.options == {"bn": "moments", "link": "max"}


def test_runs_are_listed_seed_by_seed_and_once() -> None:
    study = config(
        "fedavg", "local", seeds=2, ablations={"model": "tiny", "strategies": ["fedavg", "fedepth:bn=moments"]}
    )

    assert cells_of(study) == [
        Cell("tiny", "fedavg", 0),
        Cell("tiny", "local", 0),
        Cell("tiny", "fedavg", 1),
        Cell("tiny", "local", 1),
        Cell("tiny", "fedepth:bn=moments", 0),
    ]
    assert str(Cell("tiny", "fedepth:bn=moments+link=min", 3).folder) == "cells/tiny/fedepth_bn=moments_link=min/seed3"


def test_mistakes_are_told_before_anything_runs() -> None:
    with pytest.raises(UnknownNameError, match="fedaverage"):
        config("fedaverage")
    with pytest.raises(ConfigError, match="tau_quantil"):
        config("fedepth:tau_quantil=0.1")
    with pytest.raises(ConfigError, match="inner_options"):
        config("daloss:inner=fedavg+inner_options=3")
    for frames in ("few", "0", "1.5"):
        with pytest.raises(ConfigError, match="descriptor_frames is .*; it must be a whole number from 1"):
            config(f"fedepth:descriptor_frames={frames}")
    with pytest.raises(ConfigError, match="names no network"):
        config(models={})
    with pytest.raises(ConfigError, match="tunes or ablates 'big', which is not under models"):
        config("fedavg", tuning={"model": "big", "strategy": "fedepth", "parameter": "tau_quantile", "values": [0.1]})
    with pytest.raises(ConfigError, match="rounds is 0; it must be at least 1"):
        config("fedavg", rounds=0)


def test_a_network_may_run_for_fewer_rounds() -> None:
    few = {"strategies": ["fedavg"], "rounds": 2}
    study = config(models={"tiny": few, "other": {"strategies": ["fedavg"]}})

    assert (study.rounds_of("tiny"), study.rounds_of("other")) == (2, 3)
