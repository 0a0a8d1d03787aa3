"""Which M3ED recordings train and which test (``config/studies/m3ed_split.yaml``)."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from fed_core.config import check, from_tree, option, read_yaml
from fed_core.errors import ConfigError
from fed_core.shared_files import shared_file

PLATFORMS = ("car", "falcon", "spot")
ENVIRONMENTS = ("forest", "indoor", "urban_day", "urban_night")
FILE = "config/studies/m3ed_split.yaml"


@dataclass(frozen=True)
class M3edEntry:
    """One recording."""

    name: str = option(help="name of the recording")
    platform: str = option(help="what carries the cameras", choices=PLATFORMS)
    environment: str = option(help="what it moves through", choices=ENVIRONMENTS)
    site: str = option(help="the place")

    def __post_init__(self) -> None:
        """Check the names."""
        check(self)

    @property
    def cell(self) -> tuple[str, str]:
        """Platform and environment."""
        return self.platform, self.environment

    @property
    def info(self) -> dict[str, str]:
        """What a sequence store notes of the recording; rooms are scored up to 10 m as well (fedepth spec 8)."""
        near = {"near_cap_m": "10"} if self.environment == "indoor" else {}
        return {"platform": self.platform, "environment": self.environment, "site": self.site, **near}


@dataclass(frozen=True)
class M3edSplit:
    """Robots and unseen sequences of a study.

    Attributes:
        clients: recordings that train, one robot each.
        tests: unseen recordings.
        official_tests: the data set's own test files; they have no depth.
        left_out: others that are not used.
    """

    clients: tuple[M3edEntry, ...]
    tests: tuple[M3edEntry, ...]
    official_tests: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a recording that is listed twice."""
        names = [entry.name for entry in (*self.clients, *self.tests)] + [*self.official_tests, *self.left_out]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise ConfigError(f"M3ED split lists {twice[0]} twice; a recording trains, tests or does neither")

    @property
    def entries(self) -> tuple[M3edEntry, ...]:
        """All recordings that are used."""
        return (*self.clients, *self.tests)

    @property
    def shared_sites(self) -> tuple[str, ...]:
        """Sites of tests at which a robot trained too, sorted: their scores are not of an unseen place."""
        return tuple(sorted({test.site for test in self.tests} & {client.site for client in self.clients}))

    def role_of(self, name: str) -> str:
        """Return what a recording does: "client" trains, "test" is never trained on."""
        return "test" if any(test.name == name for test in self.tests) else "client"

    def why_not(self, name: str) -> str:
        """Return why a recording is not used; "" where it is."""
        if any(entry.name == name for entry in self.entries):
            return ""
        if name in self.official_tests:
            return "a test file of the data set, published without depth"
        return "left out of the split" if name in self.left_out else "not in the split"


def load_split(path: Path | None = None) -> M3edSplit:
    """Return the split; ``path`` names another file than the one that comes with the package.

    Raises:
        ConfigError: the file is missing or broken, or lists a recording twice.
    """
    path = path or shared_file(FILE)
    return from_tree(M3edSplit, read_yaml(path), str(path))


def environment_of(name: str) -> str:
    """Return the environment that the name of a recording tells."""
    for environment in ENVIRONMENTS[:2]:
        if environment in name:
            return environment
    return "urban_night" if "night" in name else "urban_day"
