"""What every registered strategy must keep to, whatever it does: the contract that new ones inherit."""

from collections.abc import Mapping

import pytest

from fed_core.errors import UnknownNameError
from fed_core.strategies import strategies
from fed_core.testing.strategy import StrategyContract

pytestmark = pytest.mark.usefixtures("fresh_process")

#: Options that make a strategy's clusters overlap, so that the tests see all of its paths.
OPTIONS: dict[str, list[dict[str, object]]] = {
    "fedepth": [
        {"tau": 9.0},
        {"tau": 9.0, "averaging": "server", "bn": "moments"},
        {"tau": 0.1, "newcomer": "singleton"},
        {"tau": 9.0, "variance_prior": 50.0},
    ],
    "hard": [{"tau": 9.0}, {"tau": 0.1, "newcomer": "singleton"}],
    "fedclust": [{"tau": 1e9}, {"tau": 1e-9, "newcomer": "singleton"}],
    "pacfl": [{"tau": 3.0}, {"tau": 0.1, "newcomer": "singleton"}],
    "feddwa": [
        {},
        {"local_init": "persistent"},
        {"cg_form": "incremental", "agg_weight": "w", "dwa_direction": "inverse", "kld_step_norm": True},
        {"dwa_direction": "size", "eta_g": 0.5},
    ],
    "fedbevt": [{}, {"cap_include_bev": True}],
    "feddyn": [
        {},
        {"weights": "samples", "part_alpha": {"head": 0.1}, "norm_penalty": False, "drift_from": 2},
    ],
    "fedrep": [{}, {"mode": "joint"}],
    "pcgrad": [{}, {"released": True}],
    "fedselect": [{}, {"warmup": 0, "entries": "params"}],
    "robust": [
        {},
        {"inner": "fedepth", "inner_options": {"tau": 9.0, "bn": "moments"}},
        {"inner": "fedcka"},
        {"rule": "clip", "max_norm": 1.0},
        {"rule": "trimmed_mean"},
        {"rule": "krum", "inner": "fedprox"},
        {"rule": "multi_krum", "inner": "fedepth", "inner_options": {"tau": 9.0}},
        {"rule": "bulyan", "attackers": 0},
    ],
    "daloss": [{}, {"inner": "feddwa"}, {"inner": "hard", "inner_options": {"tau": 9.0}}],
}
#: Whose single robot does not go on from its own weights.
BEYOND_THE_MEAN = ("feddyn", "fedtp")
#: What the rule of a wrapper cannot keep to: a fleet of one or two robots is too small for it, or an update is cut.
SMALL = ("test_one_robot_is_enough", "test_a_fleet_trains_and_resumes_in_the_same_bits")
BEYOND_THE_RULE: dict[object, tuple[str, ...]] = {
    **dict.fromkeys(("trimmed_mean", "krum", "multi_krum", "bulyan"), SMALL),
    "clip": ("test_one_robot_is_enough",),
}
#: Centralised training refuses more than one robot and has tests of its own.
NAMES = [name for name in strategies.names() if name != "centralised"]
CASES = [(name, options) for name in NAMES for options in OPTIONS.get(name, [{}])]
CHECKS = [name for name in vars(StrategyContract) if name.startswith("test_")]


def contract(name: str, options: Mapping[str, object]) -> StrategyContract:
    class Case(StrategyContract):
        pass

    tau = options.get("tau")
    Case.name, Case.options = name, options
    Case.mixes = name != "local" and not (isinstance(tau, float) and tau < 1.0)  # below: each robot for itself
    Case.lands_on_mean = name not in BEYOND_THE_MEAN and options.get("eta_g", 1.0) == 1.0
    Case.warm_up = int(name == "fedclust")
    return Case()


def applies(name: str, options: Mapping[str, object], check: str) -> bool:
    return name != "robust" or check not in BEYOND_THE_RULE.get(options.get("rule"), ())


@pytest.mark.parametrize(
    ("name", "options", "check"),
    [(name, options, check) for name, options in CASES for check in CHECKS if applies(name, options, check)],
    ids=lambda v: str(v),
)
def test_keeps_to_the_contract(name: str, options: dict[str, object], check: str) -> None:
    getattr(contract(name, options), check)()


def test_unknown_strategy_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="no strategy is called 'fedsgd'; known: .*fedavg"):
        strategies.get("fedsgd")
