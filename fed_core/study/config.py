"""The study file: what is compared with what, on which settings. The published ones are in ``config/studies``."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from fed_core.config import check, from_tree, option, read_yaml
from fed_core.errors import ConfigError
from fed_core.fleet import NamedOptions
from fed_core.strategies.base import make_strategy

#: Option of a label that is the study's, not the strategy's: most frames of a client's descriptor.
DESCRIPTOR_FRAMES = "descriptor_frames"
CENTRALISED = "centralised"
#: The one robot of a centralised run.
POOL = "pool"
_DEPTH_ONLY = ("generated", "descriptor_share", "descriptor_most", "score_step", "mirror", "tuning")
#: Settings that mean nothing to a task, so that its reports leave them out.
FOREIGN: Mapping[str, tuple[str, ...]] = {
    "depth": ("bev", "detection"),
    "bev": (*_DEPTH_ONLY, "detection"),
    "detection": (*_DEPTH_ONLY, "bev"),
}
#: Task of each scenario.
SCENARIOS: Mapping[str, str] = {
    "depth-hpe": "depth",
    "depth-bmr": "depth",
    "bev": "bev",
    "detection-domains": "detection",
}


@dataclass(frozen=True)
class ModelSettings:
    """One network of a study.

    Attributes:
        options: of the network.
        train: options of local training that are this network's own (lr, grad_clip, batch_size).
        strategies: labels that run with it.
        rounds: rounds with it; 0 = the study's.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Any] = field(default_factory=dict)
    strategies: tuple[str, ...] = ()
    rounds: int = option(0, help="rounds with this network; 0 = the study's", unit="count", low=0)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class Ablations:
    """What is tried beside the main table, with the first seed only.

    Attributes:
        model: network that it is tried with.
        strategies: labels ("fedepth:link=min").
        choices: options of ``fedepth`` that act at inference only; they are scored on the models of its main run.
    """

    model: str = ""
    strategies: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tuning:
    """One option chosen on the clients' own held-out frames, before any test sequence is opened.

    Attributes:
        model: network.
        strategy: strategy whose option it is.
        parameter: name of the option.
        values: candidates; empty = nothing is tuned.
        shared_with: strategies that take the chosen value, too.
    """

    model: str = ""
    strategy: str = ""
    parameter: str = ""
    values: tuple[float, ...] = ()
    shared_with: tuple[str, ...] = ()
    rounds: int = option(5, help="rounds of a tuning run", unit="count", low=1)
    held_out: float = option(0.34, help="last share of a client's frames that is scored", low=0.05, high=0.9)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class GeneratedSettings:
    """Size of generated data."""

    width: int = option(144, help="image width", unit="px", low=32)
    height: int = option(96, help="image height", unit="px", low=32)
    clients_per_cell: int = option(2, help="clients in each cell", unit="count", low=1)
    tests_per_cell: int = option(1, help="unseen sequences of each cell", unit="count", low=1)
    frames: int = option(24, help="frames of a client", unit="count", low=2)
    test_frames: int = option(60, help="frames of an unseen sequence", unit="count", low=3)
    step: int = option(4, help="take every step-th rendered frame (10 per second)", unit="count", low=1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class BevSettings:
    """Data and scoring of a bird's eye study (feddwa spec 7, 9).

    Attributes:
        reader: options of :class:`fed_core.data.opv2v.sequence.BevOptions` (label, vehicle, amcm_mask).
    """

    use_case: str = option("uc2", help="clients, by a name in bev_use_cases.yaml")
    validation: float = option(0.1, help="last share of a client's training scenarios that chooses its round", low=0.01)
    score_step: int = option(1, help="score every n-th round, and the last", unit="count", low=1)
    frames: int = option(
        256,
        help="generated: training frames of all clients together; each has two scenarios at least",
        unit="count",
        low=8,
    )
    test_frames: int = option(32, help="generated: test frames of each client", unit="count", low=2)
    scene_frames: int = option(8, help="generated: most frames of a scenario", unit="count", low=1)
    width: int = option(96, help="generated: width of the pictures", unit="px", low=16)
    height: int = option(72, help="generated: height of the pictures", unit="px", low=16)
    min_visible_px: int = option(6, help="generated: pixels from which on a vehicle counts", unit="px", low=1)
    reader: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class DetectionSettings:
    """Data and scoring of a study of 3D detection in five domains (fedcka spec 7).

    Attributes:
        reader: options of :class:`fed_core.data.nuscenes.sequence.NuScenesOptions` (cameras, sweeps).
        generator: options of :class:`fed_core.scenes.domains.DomainOptions`, but the seed.
    """

    validation: float = option(
        0.1, help="last share of a domain's training scenes, one at least, that chooses settings", low=0.01, high=0.5
    )
    score_step: int = option(1, help="score every n-th round, and the last", unit="count", low=1)
    max_boxes: int = option(500, help="most predicted boxes of a frame", unit="count", low=1, high=500)
    train_interval: int = option(1, help="train on every n-th keyframe of a scene", unit="count", low=1)
    score_interval: int = option(1, help="score every n-th keyframe of a scene", unit="count", low=1)
    reader: Mapping[str, Any] = field(default_factory=dict)
    generator: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class StudyConfig:
    """The whole study file.

    Attributes:
        title: one line for the report.
        scenario: which clients and sequences (a name in :mod:`fed_core.study.scenario`).
        train: options of local training that all networks share.
        models: networks by registered name.
        strategy_options: options by strategy, for all its labels.
    """

    title: str
    scenario: str = option(help="clients and unseen sequences", choices=tuple(SCENARIOS))
    models: Mapping[str, ModelSettings] = field(default_factory=dict)
    rounds: int = option(10, help="communication rounds", unit="count", low=1)
    seeds: int = option(3, help="seeds 0, 1, ...: worlds, first weights and data order", unit="count", low=1)
    train: Mapping[str, Any] = field(default_factory=dict)
    strategy_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    descriptor_share: float = option(0.2, help="first share of a sequence that chooses its models", low=0.01, high=0.9)
    descriptor_most: int = option(64, help="most frames that choose the models", unit="count", low=2)
    score_step: int = option(1, help="score every n-th of the remaining frames", unit="count", low=1)
    mirror: bool = option(False, help="predict every image and its mirror image, and average (fedepth spec 7.1)")
    generated: GeneratedSettings = field(default_factory=GeneratedSettings)
    bev: BevSettings = field(default_factory=BevSettings)
    detection: DetectionSettings = field(default_factory=DetectionSettings)
    tuning: Tuning = field(default_factory=Tuning)
    ablations: Ablations = field(default_factory=Ablations)

    def __post_init__(self) -> None:
        """Check the bounds and that every label is one."""
        check(self)
        if not self.models:
            raise ConfigError("the study names no network; list at least one under models")
        for cell in cells_of(self):
            self.strategy_of(cell.label)
        for name in (self.ablations.model, self.tuning.model):
            if name and name not in self.models:
                raise ConfigError(f"the study tunes or ablates {name!r}, which is not under models")
        if self.tuning.values and self.task != "depth":
            raise ConfigError(f"a study of the scenario {self.scenario!r} tunes nothing; leave out tuning")

    @property
    def task(self) -> str:
        """What is learned."""
        return SCENARIOS[self.scenario]

    def rounds_of(self, model: str) -> int:
        """Return the rounds that a network runs for."""
        return self.models[model].rounds or self.rounds

    def train_of(self, model: str) -> dict[str, Any]:
        """Return the options of local training with a network."""
        return {**self.train, **self.models[model].train}

    def strategy_of(self, label: str) -> NamedOptions:
        """Return the strategy behind a label, with the study's options for it below the label's own."""
        name, options = parse_label(label)
        own = {key: value for key, value in options.items() if key != DESCRIPTOR_FRAMES}
        merged = {**self.strategy_options.get(name, {}), **own}
        frames = options.get(DESCRIPTOR_FRAMES, 1)
        if type(frames) is not int or frames < 1:
            text = f"{DESCRIPTOR_FRAMES} is {frames!r}; it must be a whole number from 1"
            raise ConfigError(f"strategy {label!r}: {text}")
        inner = merged.get("inner_options", {})
        if "inner" in merged and isinstance(inner, Mapping):  # around another one, which has the study's options, too
            merged = {**merged, "inner_options": {**self.strategy_options.get(str(merged["inner"]), {}), **inner}}
        make_strategy(name, merged)
        return NamedOptions(name, merged)


@dataclass(frozen=True)
class Cell:
    """One run of a study: a network, a strategy, a seed.

    Attributes:
        model: registered name.
        label: strategy with the options that set it apart.
        seed: of worlds, weights and data order.
    """

    model: str
    label: str
    seed: int

    @property
    def name(self) -> str:
        """What people read."""
        return f"{self.model} {self.label} seed {self.seed}"

    @property
    def folder(self) -> Path:
        """Where its result lies, below the study's folder."""
        return Path("cells") / self.model / re.sub(r"[^A-Za-z0-9_.=-]", "_", self.label) / f"seed{self.seed}"


def load_study(path: Path) -> StudyConfig:
    """Read a study file; mistakes raise :class:`ConfigError` with the place."""
    return from_tree(StudyConfig, read_yaml(path), where=str(path))


def cells_of(config: StudyConfig) -> list[Cell]:
    """Return all runs: the main table seed by seed, then the ablations."""
    main = [
        Cell(model, label, seed)
        for seed in range(config.seeds)
        for model, settings in config.models.items()
        for label in settings.strategies
    ]
    more = [Cell(config.ablations.model, label, 0) for label in config.ablations.strategies]
    return list(dict.fromkeys(main + more))


def parse_label(label: str) -> tuple[str, dict[str, Any]]:
    """Return strategy and options of a label: "fedepth:method=cliques+bn=moments"."""
    name, colon, rest = label.partition(":")
    options: dict[str, Any] = {}
    for part in rest.split("+") if colon else ():
        key, equals, text = part.partition("=")
        if not (key and equals and text) or key in options:
            text = f"strategy {label!r}: {part!r} is no option, or one given twice"
            raise ConfigError(f"{text}; write NAME or NAME:OPTION=VALUE+OPTION=VALUE")
        options[key] = _value(label, text)
    return name, options


def _value(label: str, text: str) -> Any:
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as err:  # ValueError: a date that is none
        raise ConfigError(f"strategy {label!r}: {text!r} is no value: {' '.join(str(err).split())}") from err
    # YAML reads 1e-3 as text, people mean a number.
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value
