"""Which model of a run is exported, and why."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fed_cli.exporting.runs import Found, StoredRun
from fed_cli.fleetrun.figures import Figure, number, words_of
from fed_cli.fleetrun.folder import SUMMARY
from fed_core.errors import ConfigError, StoreError, UnknownNameError
from fed_core.types import Array

_SCORES = "scores"
#: Start of the key of a model that the aggregator keeps for one robot.
_OF_ROBOT = "robot/"


@dataclass(frozen=True)
class Chosen:
    """A model of a run.

    Attributes:
        run: that keeps it.
        key: of a model of the fleet; "" where it is a robot's.
        robot: whose model it is; "" where it is the fleet's.
        why: reason, for people.
    """

    run: StoredRun
    key: str
    robot: str
    why: str

    @property
    def label(self) -> str:
        """What people call it."""
        return f"model of robot {self.robot}" if self.robot else self.key

    def weights(self) -> dict[str, Array]:
        """Return all its tensors."""
        return self.run.weights_for(self.robot) if self.robot else self.run.weights_of(self.key)


@dataclass(frozen=True)
class Served:
    """An unseen sequence and what served it.

    Attributes:
        name: of the sequence.
        keys: models of the fleet whose mean served it; empty where a robot's model did.
        robot: whose model served it.
        value: main figure of the score; None = there was nothing to score.
    """

    name: str
    keys: tuple[str, ...]
    robot: str
    value: float | None


def choose(found: Found, model: str | None, robot: str | None) -> Chosen:
    """Return the model that was asked for, or the best one.

    Raises:
        ConfigError: both were asked for.
        UnknownNameError: there is no such model or robot; with those that there are.
        StoreError: nothing tells which one is best.
    """
    if model is not None and robot is not None:
        raise ConfigError("--model and --robot name different models; give one of them")
    run = found.runs[0]
    if robot is not None:
        if robot not in run.plan.robots:
            raise UnknownNameError(f"no robot of {run.folder} is called {robot!r}; known: {_listed(run.plan.robots)}")
        return Chosen(run, "", robot, "asked for")
    return _best(found, found.runs) if model is None else _named(found, model)


def _named(found: Found, name: str) -> Chosen:
    """Return "KEY" of the first run; of a demo also "METHOD/KEY", or "METHOD" for the best of a method."""
    run, key = found.runs[0], name
    if (method := found.run(name)) is not None and name not in run.models:
        return _best(found, (method,))
    head, _, tail = name.partition("/")
    if (method := found.run(head)) is not None and name not in run.models:
        run, key = method, tail
    if key not in run.models:
        known = [key for key in found.runs[0].models]
        if len(found.runs) > 1:
            known = [f"{one.folder.name}/{key}" for one in found.runs for key in one.models]
        raise UnknownNameError(f"no model of {found.path} is called {name!r}; known: {_listed(known)}")
    return Chosen(run, key, "", "asked for")


def _best(found: Found, runs: Sequence[StoredRun]) -> Chosen:
    scored = _best_scored(found, runs)
    return _best_trained(runs[0]) if scored is None else scored


def _best_scored(found: Found, runs: Sequence[StoredRun]) -> Chosen | None:
    """Return the model with the best mean on the unseen sequences that it served; None where nothing was scored."""
    if not found.summary:
        return None
    main, best, best_value = words_of(found.summary).figures[0], None, None
    for run in runs:
        for (key, robot), served in _by_model(served_by(found, run)).items():
            mean = main.mean([one.value for one in served])
            if mean == mean and (best_value is None or main.best([mean, best_value]) != best_value):
                told = f"best mean {main.title}, {number(mean)}, on the unseen sequences that it served"
                names = ", ".join(one.name for one in served)
                best, best_value = Chosen(run, key, robot, f"{told} ({names}; {SUMMARY})"), mean
    return best


def _by_model(served: Sequence[Served]) -> dict[tuple[str, str], list[Served]]:
    models: dict[tuple[str, str], list[Served]] = {}
    for one in served:
        for model in [("", one.robot)] if one.robot else [(key, "") for key in one.keys]:
            models.setdefault(model, []).append(one)
    return models


def served_by(found: Found, run: StoredRun) -> list[Served]:
    """Return the unseen sequences of a demo that a model of a run served."""
    return [] if not found.summary else list(_served(found, run, words_of(found.summary).figures[0]))


def _served(found: Found, run: StoredRun, main: Figure) -> Iterator[Served]:
    summary, method = found.summary or {}, run.folder.name
    drivers = {str(entry["name"]): str(entry.get("robot") or "") for entry in (found.fleet or {}).get("test", ())}
    try:
        for row in summary["sequences"]:
            if method not in row[main.key]:
                continue
            name, value = str(row["name"]), row[main.key][method]
            driver = drivers.get(name, "")
            if run.is_personal:
                if driver in run.plan.robots:
                    yield Served(name, (), driver, value)
            elif keys := _keys(found, run, row) or _without_clusters(run, driver):
                yield Served(name, keys, "", value)
    except (KeyError, TypeError, IndexError, AttributeError) as err:
        text = f"{found.demo}/{SUMMARY} does not fit the run {run.folder}: {err!r}; it is broken or of another version"
        raise StoreError(text) from err


def _keys(found: Found, run: StoredRun, row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the models of the clusters that served a sequence; none where that is not kept, or there are none."""
    clusters, method = row["clusters"], run.folder.name
    if method != (found.summary or {})["strategy"]:  # the summary tells those of the demo's own method alone
        path = (found.demo or found.path) / _SCORES / method / f"{row['name']}.json"
        try:
            clusters = json.loads(path.read_text(encoding="utf-8"))["selection"]["clusters"]
        except (OSError, ValueError, KeyError, TypeError):
            clusters = ()
    return tuple(dict.fromkeys(run.plan.models[index] for index in clusters))


def _without_clusters(run: StoredRun, driver: str) -> tuple[str, ...]:
    """Return the model that serves where none was chosen: the driver's own, else the only one."""
    own = f"{_OF_ROBOT}{driver}"
    return (own,) if own in run.models else run.models if len(run.models) == 1 else ()


def _best_trained(run: StoredRun) -> Chosen:
    """Return the model whose robots' last training ended with the lowest mean loss."""
    candidates = list(_losses(run))
    if not candidates:
        raise StoreError(f"no loss is known of {run.folder}, so none is best; name one: {_listed(run.models)}")
    loss, key, robot, members = min(candidates)
    if len(candidates) == 1:
        return Chosen(run, key, robot, "the run has no other")
    whose = f"of {robot}" if robot else f"mean of {', '.join(members)}, weighted by samples"
    why = f"lowest loss of the last training, {loss:.4g} ({whose}); no unseen sequence was scored"
    return Chosen(run, key, robot, why)


def _losses(run: StoredRun) -> Iterator[tuple[float, str, str, tuple[str, ...]]]:
    """Yield loss, key, robot and the robots that the loss is of, for each model that could be best."""
    last: dict[str, tuple[float, int]] = {}
    for (_, robot), update in sorted(run.history.updates.items()):
        if update.loss is not None:
            last[robot] = (update.loss, update.samples)
    if run.is_personal:
        yield from ((loss, "", robot, (robot,)) for robot, (loss, _) in last.items() if robot in run.plan.robots)
        return
    for key in run.models:
        members = _members(run, key, last)
        weight = sum(last[robot][1] for robot in members)
        if weight:
            yield sum(last[robot][0] * last[robot][1] for robot in members) / weight, key, "", members


def _members(run: StoredRun, key: str, known: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the robots of a model that trained; all of them where there are no clusters."""
    if key.startswith(_OF_ROBOT):
        return tuple(robot for robot in known if key == f"{_OF_ROBOT}{robot}")
    clusters = run.history.rounds[-1].clusters
    places = {index for index, one in enumerate(run.plan.models) if one == key}
    return tuple(robot for robot in sorted(known) if not clusters or places & set(clusters.get(robot, ())))


def _listed(names: Any) -> str:
    return ", ".join(sorted(names))
