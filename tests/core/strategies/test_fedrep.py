from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fed_core.config import from_tree
from fed_core.errors import ConfigError
from fed_core.strategies.base import GLOBAL, LocalRule, LocalState, Strategy
from fed_core.strategies.daloss import DALoss
from fed_core.strategies.fedavg import FedAvg
from fed_core.strategies.fedrep import FedRep
from fed_core.types import ModelSignature
from tests.core.strategies import first_steps
from tests.core.strategies.first_steps import differ
from tests.core.strategies.harness import SIGNATURE, Fleet, robots
from tests.core.training.tiny import signature, state_arrays, tiny

HEAD = {"head.weight", "head.bias"}
BODY = {"encoder.0.weight", "encoder.0.bias", "encoder.1.weight", "encoder.1.bias"}
STATISTICS = {"encoder.1.running_mean", "encoder.1.running_var", "encoder.1.num_batches_tracked"}


def with_parts(network: Any, name: str) -> ModelSignature:
    return replace(signature(network, name), parts={"head": tuple(sorted(HEAD))})


@pytest.fixture(autouse=True)
def named_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_steps, "signature", with_parts)


def changed(strategy: Strategy, steps: int, **options: Any) -> set[str]:
    return set(differ(first_steps.first_round(strategy, steps=steps, **options), state_arrays(tiny())))


def test_the_first_half_trains_the_head_and_the_second_the_rest() -> None:
    """Two epochs of two steps; norm layers of the frozen half keep their statistics."""
    seen: list[set[str]] = []

    class Watched(FedRep):
        def local_rule(self) -> LocalRule:
            rule = super().local_rule()
            after, before = rule.after_step, state_arrays(tiny())

            def watch(state: LocalState) -> None:
                nonlocal before
                now = state_arrays(state.model)
                seen.append(set(differ(now, before)))
                before = now
                after(state)

            rule.after_step = watch  # type: ignore[method-assign]
            return rule

    first_steps.first_round(Watched(), steps=0)
    assert seen[:2] == [HEAD, HEAD]
    assert all(names == BODY | STATISTICS for names in seen[2:]) and len(seen) == 4


@pytest.mark.parametrize(("share", "expected"), [(1.0, HEAD), (0.0, BODY | STATISTICS)])
def test_all_of_the_steps_may_go_to_one_half(share: float, expected: set[str]) -> None:
    assert changed(FedRep(head_share=share), steps=3) == expected


def test_one_step_trains_the_representation() -> None:
    assert changed(FedRep(head_share=0.4), steps=1) == BODY | STATISTICS


def test_joint_training_is_fedavgs_with_a_head_that_stays() -> None:
    joint = FedRep(mode="joint")
    assert not differ(first_steps.first_round(joint), first_steps.first_round(FedAvg()))
    assert changed(joint, steps=1) == HEAD | BODY | STATISTICS
    assert set(SIGNATURE.parts["head"]).isdisjoint(joint.uploads(SIGNATURE))


def test_everything_is_trainable_again_afterwards() -> None:
    network = tiny()
    rule = FedRep().local_rule()
    start = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
    network.drop.weight = None  # type: ignore[assignment]
    network.head.bias.requires_grad_(False)  # frozen by the network itself
    state = LocalState(network, start, *_empty(), signature=with_parts(network, "tiny"), num_steps=4)
    rule.begin(state)
    frozen = {name for name, parameter in network.named_parameters() if not parameter.requires_grad}
    assert frozen == BODY | {"head.bias"}
    rule.finish(state)
    assert {name for name, p in network.named_parameters() if not p.requires_grad} == {"head.bias"}


def _empty() -> tuple[Any, ...]:
    from fed_core.types import Memory

    return Memory(), {}, {}, 8


def test_representations_are_equal_and_heads_are_not() -> None:
    run = Fleet(FedRep(), robots({"ana": 0.0, "bobby": 1.0})).begin().run(2)
    left, right = run.start_of("ana"), run.start_of("bobby")
    private = set(SIGNATURE.parts["head"])
    assert {n for n in SIGNATURE.names if not np.array_equal(left[n], right[n])} == private
    assert private.isdisjoint(run.blobs[GLOBAL])


def test_daloss_pulls_the_shared_tensors_alone() -> None:
    """With all steps on the head, which has no global counterpart, the pull does nothing."""
    alone = FedRep(head_share=1.0)
    pulled = DALoss(inner="fedrep", inner_options={"head_share": 1.0}, C=100.0)
    for steps in (2, 4):
        left, right = (first_steps.first_round(s, steps=steps) for s in (alone, pulled))
        assert not differ(left, right)
    mixed = DALoss(inner="fedrep", C=1e4)
    assert differ(first_steps.first_round(mixed), first_steps.first_round(FedRep()))


def test_wrong_options_are_named() -> None:
    with pytest.raises(ConfigError, match="FedRep.head_share is 1.5; it must lie between 0.0 and 1.0"):
        from_tree(FedRep, {"head_share": 1.5})
    with pytest.raises(ConfigError, match="FedRep.mode is 'both'; choose one of alternate, joint"):
        from_tree(FedRep, {"mode": "both"})
