"""A federation over Flower's messages gives, bit for bit, what the simulation of the same fleet gives."""

import re
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message

from fed_core.errors import ConfigError, DiskFullError, StoreError, StrategyError
from fed_core.roles.messages import FleetPlan
from fed_core.simulation import Simulation
from fed_core.strategies.base import strategies
from fed_flower.records import from_record
from fed_flower.strategy import FedPerceptionStrategy
from tests.core.training.tiny import toolbox, write_folder
from tests.flower.grids import NAMES, LocalGrid, app, fleet


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for seed, name in enumerate(NAMES):
        write_folder(folder / name, 6, seed=seed)
    return folder


def begun(folder: Path, strategy: str = "fedavg", rounds: int = 2, **options: object) -> FedPerceptionStrategy:
    return FedPerceptionStrategy.from_fleet(fleet(strategy, rounds), folder, toolbox=toolbox, **options)


def run_round(strategy: FedPerceptionStrategy, grid: LocalGrid, number: int = 1) -> ArrayRecord | None:
    messages = strategy.configure_train(number, strategy.initial_arrays, ConfigRecord(), grid)
    return strategy.aggregate_train(number, grid.send_and_receive(messages))[0]


def plan_of(strategy: FedPerceptionStrategy) -> FleetPlan:
    plan = strategy._aggregator.plan
    assert plan is not None
    return plan


#: Strategies for one robot that has all recordings: there is nothing to send.
ALONE = {"centralised"}


@pytest.mark.parametrize("name", sorted(set(strategies.names()) - ALONE))
def test_same_models_as_the_simulation(base: Path, tmp_path: Path, name: str) -> None:
    wanted: list[FleetPlan] = []
    Simulation(fleet(name), base, tmp_path / "a", toolbox(), threads=1, on_plan=wanted.append).run()

    strategy = begun(tmp_path / "b", name)
    grid = LocalGrid(app(base), [70, 30, 50])  # Flower's node ids have no order
    found = []
    for number in (1, 2):
        messages = strategy.configure_train(number, strategy.initial_arrays, ConfigRecord(), grid)
        found.append(plan_of(strategy))
        strategy.aggregate_train(number, grid.send_and_receive(messages))
    found.append(plan_of(strategy))

    assert [plan.round for plan in wanted] == [1, 2, 2]
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.blobs == theirs.blobs  # digests of all tensors that the run keeps
        assert (ours.robots, ours.models, ours.finished) == (theirs.robots, theirs.models, theirs.finished)
        assert ours.serving == theirs.serving


def test_flowers_own_loop_ends_with_the_model(base: Path, tmp_path: Path) -> None:
    strategy = begun(tmp_path)
    grid = LocalGrid(app(base), [1, 2, 3])
    assert strategy.rounds_left == 2

    result = strategy.start(grid, strategy.initial_arrays, num_rounds=strategy.rounds_left)

    final = from_record(strategy.models["global"])
    assert {name: array.tobytes() for name, array in from_record(result.arrays).items()} == {
        name: array.tobytes() for name, array in final.items()
    }
    assert {array.dtype.name for array in final.values()} == {"float32", "int64"}
    assert strategy.rounds_left == 0
    losses = [result.train_metrics_clientapp[number]["loss"] for number in (1, 2)]
    assert losses[1] < losses[0]
    assert [result.train_metrics_clientapp[1][key] for key in ("num-examples", "updates")] == [18, 3]
    with pytest.raises(StrategyError, match="is over after 2 rounds, and Flower asks for one more; .*rounds_left"):
        strategy.configure_train(3, result.arrays, ConfigRecord(), grid)


def test_several_models_carry_their_key_in_flowers_one_record(base: Path, tmp_path: Path) -> None:
    strategy = begun(tmp_path, "local", rounds=1)
    arrays = run_round(strategy, LocalGrid(app(base), [1, 2, 3]))
    assert arrays is not None
    assert {name.partition(":")[0] for name in arrays} == set(strategy.models) == {f"robot/{name}" for name in NAMES}


def test_starts_from_the_arrays_that_flower_was_given(base: Path, tmp_path: Path) -> None:
    strategy = begun(tmp_path)
    tensors = {name: array + 1 for name, array in from_record(strategy.initial_arrays).items()}
    grid = LocalGrid(app(base), [1, 2, 3])
    given = ArrayRecord({name: Array(np.asarray(array)) for name, array in tensors.items()})
    message = next(iter(strategy.configure_train(1, given, ConfigRecord({"note": "mine"}), grid)))
    sent = from_record(message.content["arrays"])
    assert {name: array.tolist() for name, array in sent.items()} == {n: a.tolist() for n, a in tensors.items()}
    assert dict(message.content["config"]) == {"note": "mine", "server-round": 1}

    other = begun(tmp_path / "other")
    short = ArrayRecord({"w": Array(np.zeros(3))})
    with pytest.raises(ConfigError, match="initial_arrays do not fit network tiny: tensor 'encoder.0.weight' is miss"):
        other.configure_train(1, short, ConfigRecord(), grid)


def test_a_server_that_starts_again_goes_on_and_ends_the_same(base: Path, tmp_path: Path) -> None:
    whole = begun(tmp_path / "whole", "fedcka")
    grid = LocalGrid(app(base), [1, 2, 3])
    for number in (1, 2):
        run_round(whole, grid, number)

    grid = LocalGrid(app(base), [1, 2, 3])
    cut = begun(tmp_path / "cut", "fedcka")
    run_round(cut, grid)
    with pytest.raises(StoreError, match="another process runs in .*cut; wait until it ends, or use another folder"):
        begun(tmp_path / "cut", "fedcka")
    cut.close()
    again = begun(tmp_path / "cut", "fedcka")
    assert again.rounds_left == 1
    run_round(again, grid)  # Flower counts from 1 again

    assert plan_of(again).finished
    assert plan_of(again).blobs == plan_of(whole).blobs


def test_a_round_closes_without_the_robots_that_fail_and_stays_open_without_any(base: Path, tmp_path: Path) -> None:
    def lose(reply: Message) -> Message | None:
        wrong = reply.metadata.message_type == "train" and reply.metadata.src_node_id in broken
        return Message(Error(0, "battery empty"), reply_to=grid.sent[-1]) if wrong else reply

    grid = LocalGrid(app(base), [1, 2, 3], lose)
    strategy = begun(tmp_path)
    broken = {1, 2, 3}
    assert run_round(strategy, grid, 1) is None
    assert (plan_of(strategy).round, strategy.rounds_left) == (1, 2)

    broken = {2}
    assert run_round(strategy, grid, 2) is not None
    assert (plan_of(strategy).round, strategy.rounds_left) == (2, 1)
    closed = strategy._aggregator.book.closed()
    assert closed is not None
    assert [report.robot_id for report in closed.reports] == ["ana", "cleo"]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("head.bias", np.zeros(2, np.float32), "tensor 'head.bias' .* should be"),
        ("head.bias", np.zeros(1, np.float64), "tensor 'head.bias' .* should be"),
        ("head.bias", np.full(1, np.nan, np.float32), "tensor 'head.bias' holds nan at element 0"),
        ("more", np.zeros(1, np.float32), "tensor 'more' is not part of what was agreed"),
    ],
)
def test_a_bad_update_is_told_in_one_line_and_left_out(
    base: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, value: np.ndarray, text: str
) -> None:
    def spoil(reply: Message) -> Message:
        if reply.metadata.message_type == "train" and reply.metadata.src_node_id == 2:
            reply.content["arrays"][name] = Array(value)
        return reply

    strategy = begun(tmp_path, rounds=1)
    run_round(strategy, LocalGrid(app(base), [1, 2, 3], spoil))
    assert any(re.search(f"dropped a message of 'ben' .*{text}", line) for line in caplog.messages), caplog.messages
    closed = strategy._aggregator.book.closed()
    assert closed is not None
    assert [report.robot_id for report in closed.reports] == ["ana", "cleo"]


def test_an_update_that_cannot_be_read_is_told_too(
    base: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def spoil(reply: Message) -> Message:
        if reply.metadata.message_type == "train":
            if reply.metadata.src_node_id == 1:
                reply.content["arrays"]["head.bias"] = Array("float32", (1,), "pickle", b"cos")
            if reply.metadata.src_node_id == 2:
                del reply.content["fed_perception"]
        return reply

    strategy = begun(tmp_path, rounds=1)
    run_round(strategy, LocalGrid(app(base), [1, 2, 3], spoil))
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [
        "robot ana: tensor 'head.bias' is written as 'pickle'; send 'numpy.ndarray'",
        "robot ben: the message has no record 'fed_perception' of ours; both sides must run fed_flower",
    ]
    assert plan_of(strategy).finished  # with cleo's


def test_what_goes_wrong_on_the_server_stops_the_run(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object) -> None:
        raise DiskFullError("no space left in runs/flower; free some and try again")

    strategy = begun(tmp_path, rounds=1)
    monkeypatch.setattr("fed_flower.aggregator.run_aggregation", broken)
    with pytest.raises(DiskFullError, match="no space left"):
        run_round(strategy, LocalGrid(app(base), [1, 2, 3]))


def test_too_few_robots_end_the_run_with_the_reasons(
    base: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def rename(reply: Message) -> Message:
        return Message(Error(0, "no camera"), reply_to=grid.sent[-1]) if reply.metadata.src_node_id == 2 else reply

    grid = LocalGrid(app(base), [1, 2, 3], rename)
    strategy = begun(tmp_path / "a")
    with pytest.raises(StrategyError, match="^2 of at least 3 robots can take part$"):
        run_round(strategy, grid)
    assert caplog.messages[-1] == "node 2 does not take part: no camera"

    strategy = begun(tmp_path / "b", patience_s=0.0)
    text = "^2 of at least 3 Flower nodes are there after 0 s; start more, or lower min_robots$"
    with pytest.raises(StrategyError, match=text):
        run_round(strategy, LocalGrid(app(base), [1, 2]))


def test_two_nodes_of_one_name(base: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    grid = LocalGrid(app(base), [1, 2, 3])
    grid.contexts[3].node_config["partition-id"] = 0
    with pytest.raises(StrategyError, match="2 of at least 3 robots can take part"):
        run_round(begun(tmp_path), grid)
    assert caplog.messages[-1] == "node 3 does not take part: another node is called 'ana'"


def test_a_robot_of_another_network_is_refused(base: Path, tmp_path: Path) -> None:
    def change(reply: Message) -> Message:
        record = reply.content["fed_perception"]
        record["json"] = (
            str(record["json"]).replace('"model_digest": "', '"model_digest": "0') if turn == 1 else record["json"]
        )
        return reply

    turn = 1
    text = "0 of at least 3 robots can take part; 'ana' was refused: model 'tiny' .*this run trains 'tiny'"
    with pytest.raises(StrategyError, match=text):
        run_round(begun(tmp_path), LocalGrid(app(base), [1, 2, 3], change))


def test_a_node_that_is_gone_is_not_asked_and_comes_back_under_another_id(base: Path, tmp_path: Path) -> None:
    strategy = begun(tmp_path, rounds=3)
    grid = LocalGrid(app(base), [1, 2, 3])
    run_round(strategy, grid, 1)
    gone = grid.contexts.pop(3)
    grid.sent.clear()
    assert run_round(strategy, grid, 2) is not None
    assert [message.metadata.dst_node_id for message in grid.sent] == [1, 2]

    grid.contexts[33] = gone  # cleo, with what it kept
    grid.sent.clear()
    run_round(strategy, grid, 3)
    told = [(message.metadata.message_type, message.metadata.dst_node_id) for message in grid.sent]
    assert told == [("query", 33), ("train", 1), ("train", 2), ("train", 33)]
    closed = strategy._aggregator.book.closed()
    assert closed is not None
    assert [report.robot_id for report in closed.reports] == list(NAMES)


def test_a_robot_that_comes_later_takes_part(base: Path, tmp_path: Path) -> None:
    strategy = FedPerceptionStrategy.from_fleet(fleet("fedepth"), tmp_path, toolbox=toolbox, min_robots=2)
    grid = LocalGrid(app(base), [1, 2, 3])
    late = grid.contexts.pop(3)
    run_round(strategy, grid, 1)
    assert set(plan_of(strategy).robots) == {"ana", "ben"}
    grid.contexts[3] = late
    run_round(strategy, grid, 2)
    assert set(plan_of(strategy).robots) == set(NAMES)  # planned for when its first round closes
