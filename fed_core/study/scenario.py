"""Who trains and what is scored: the clients and the unseen sequences of a study."""

from dataclasses import dataclass, replace
from pathlib import Path

from fed_core.config import check, option
from fed_core.data.open import SourceConfig, open_source
from fed_core.data.store import INDEX, read_index, write_store
from fed_core.errors import ConfigError, DataError
from fed_core.roles.membership import is_robot_id

CLIENT, TEST, VALIDATION = "client", "test", "validation"


@dataclass(frozen=True)
class ScoreRule:
    """How depth of a sequence is scored (fedepth spec 8)."""

    cap_m: float = option(80.0, help="largest true depth", unit="m", low=0.1)
    d_min_m: float = option(0.1, help="smallest true depth", unit="m", low=1e-4)
    crop: str = option("none", help="evaluation crop", choices=("none", "garg", "eigen", "nyu"))
    near_cap_m: float = option(0.0, help="second, smaller cap that is reported beside; 0 = none", unit="m", low=0.0)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class StudySequence:
    """One recording.

    Attributes:
        name: robot id of a client, name of an unseen sequence.
        platform: what carried the camera.
        environment: what it moved through.
        source: the frames.
        score: how its depth is scored.
        owner: client whose own model is scored on it; "" = models are chosen by its pictures.
        split: "test", or "validation", which chooses the round.
    """

    name: str
    platform: str
    environment: str
    source: SourceConfig
    score: ScoreRule = ScoreRule()
    owner: str = ""
    split: str = TEST

    def __post_init__(self) -> None:
        if not is_robot_id(self.name):
            raise ConfigError(f"sequence {self.name!r} is no robot id: letters, digits and _, a letter first")

    @property
    def cell(self) -> str:
        """Platform and environment, as the tables name them."""
        return f"{self.platform}/{self.environment}"


@dataclass(frozen=True)
class Scenario:
    """Clients and unseen sequences of one seed.

    Attributes:
        clients: each is one robot.
        tests: never trained on.
        synthetic: rendered, not recorded.
    """

    clients: tuple[StudySequence, ...]
    tests: tuple[StudySequence, ...]
    synthetic: bool

    def __post_init__(self) -> None:
        if not self.clients or not self.tests:
            counts = f"{len(self.clients)} clients and {len(self.tests)} unseen sequences"
            raise ConfigError(f"the scenario has {counts}; a study needs at least one of each")
        names = [sequence.name for sequence in (*self.clients, *self.tests)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f"sequence {', '.join(twice)} is in the scenario twice")


def prepare(sequence: StudySequence, folder: Path) -> None:
    """Bring a recording into a store below ``folder``, once."""
    info = {"platform": sequence.platform, "environment": sequence.environment}
    target = folder / sequence.name
    if not (target / INDEX).exists():
        write_store(open_source(sequence.source, Path()), target, info=info)


def prepared(sequence: StudySequence, folder: Path) -> StudySequence:
    """Return a sequence that is read from where :func:`prepare` wrote it."""
    return replace(sequence, source=SourceConfig(data=str((folder / sequence.name).absolute())))


def from_stores(folder: Path) -> Scenario:
    """Return the scenario of prepared recordings, the sub-folders of ``folder`` (``fedperc prepare`` writes them).

    The index of each says whose it is: ``role`` ("client" or "test"), ``platform``, ``environment``, and where the
    defaults do not fit ``cap_m``, ``d_min_m``, ``crop`` and ``near_cap_m``.
    """
    stores = sorted(path.parent for path in folder.glob(f"*/{INDEX}"))
    if not stores:
        raise DataError(f"{folder} holds no prepared recordings; run `fedperc prepare --help`")
    found: dict[str, list[StudySequence]] = {CLIENT: [], TEST: []}
    for store in stores:
        info = read_index(store)["info"]
        missing = [key for key in ("role", "platform", "environment") if key not in info]
        if missing or info["role"] not in found:
            wanted = ", ".join(missing) or f"role is {info['role']!r}"
            raise DataError(f"{store}: its index does not say what it is ({wanted}); prepare it again")
        numbers = {key: float(info[key]) for key in ("cap_m", "d_min_m", "near_cap_m") if key in info}
        rule = ScoreRule(crop=info.get("crop", "none"), **numbers)
        source = SourceConfig(data=str(store.absolute()))
        sequence = StudySequence(_identifier(store.name), info["platform"], info["environment"], source, rule)
        found[info["role"]].append(sequence)
    return Scenario(tuple(found[CLIENT]), tuple(found[TEST]), synthetic=False)


def _identifier(name: str) -> str:
    plain = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
    return plain if plain[:1].isalpha() else f"r_{plain}"


def held_out(scenario: Scenario, share: float) -> Scenario:
    """Return a scenario made of clients alone: the last ``share`` of each one's frames is scored, the rest trains."""
    train, scored = [], []
    for client in scenario.clients:
        num_frames = len(open_source(client.source, Path()))
        cut = max(1, round(num_frames * (1.0 - share)))
        if num_frames - cut < 3:
            raise ConfigError(f"client {client.name!r} has {num_frames} frames; {share:.0%} of them are too few")
        train.append(replace(client, source=replace(client.source, stop=cut)))
        scored.append(replace(client, name=f"{client.name}_held_out", source=replace(client.source, start=cut)))
    return Scenario(tuple(train), tuple(scored), scenario.synthetic)
