"""Which scenarios train and which test (``config/studies/bev_use_cases.yaml``), and the folders that hold them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fed_core.config import check, from_tree, option, read_yaml
from fed_core.data.opv2v import files
from fed_core.data.opv2v.sequence import ALL_CAMERAS, BevOptions, Opv2vSequence
from fed_core.errors import ConfigError, DataError
from fed_core.shared_files import shared_file

FILE = "config/studies/bev_use_cases.yaml"
#: Use case of a folder, in the form of the file above.
OWN_FILE = "use_case.yaml"
VEHICLES = ("bus", "truck", "car")


@dataclass(frozen=True)
class BevClient:
    """One client of a use case: what it drives, its cameras and its scenarios."""

    name: str = option(help="name of the client")
    vehicle: str = option(help="what carries the cameras", choices=VEHICLES)
    cameras: tuple[int, ...] = option(ALL_CAMERAS, help="camera ids")
    train: tuple[str, ...] = option((), help="scenarios that train")
    test: tuple[str, ...] = option((), help="scenarios that test")

    def __post_init__(self) -> None:
        """Check the names."""
        check(self)
        for name in (*self.train, *self.test):
            if not files.is_scenario(name):
                raise ConfigError(f"client {self.name}: {name!r} is no usable scenario (yyyy_mm_dd_hh_mm_ss)")


@dataclass(frozen=True)
class UseCase:
    """Clients that learn together; no scenario both trains and tests, and none belongs to two clients.

    Attributes:
        name: "uc1" to "uc4".
        clients: in order.
    """

    name: str
    clients: tuple[BevClient, ...]

    def __post_init__(self) -> None:
        """Refuse names and scenarios that are listed twice."""
        twice = _first_twice([client.name for client in self.clients])
        if twice:
            raise ConfigError(f"use case {self.name} has two clients called {twice}")
        twice = _first_twice([name for client in self.clients for name in (*client.train, *client.test)])
        if twice:
            raise ConfigError(f"use case {self.name} lists scenario {twice} twice; it trains or tests, at one client")


@dataclass(frozen=True)
class ClientFolders:
    """A client with the folders of its scenarios.

    Attributes:
        client: what it is; without scenario lists where the folders tell them.
        train: scenario folders that train.
        test: scenario folders that test.
    """

    client: BevClient
    train: tuple[Path, ...]
    test: tuple[Path, ...]

    def open(self, split: str, options: BevOptions | None = None) -> Opv2vSequence:
        """Return the frames of a split ("train", "test"); default: the client's cameras, the first vehicle."""
        chosen = options or BevOptions(cameras=self.client.cameras)
        return Opv2vSequence(self.client.name, self.train if split == files.SPLITS[0] else self.test, chosen)


def load_use_cases(path: Path | None = None) -> dict[str, UseCase]:
    """Return the use cases by name; ``path`` names another file than the one that comes with the package.

    Raises:
        ConfigError: the file is missing or broken, or lists a scenario twice in one use case.
    """
    path = path or shared_file(FILE)
    tree = read_yaml(path)
    if not isinstance(tree, dict) or not all(isinstance(clients, list) for clients in tree.values()):
        raise ConfigError(f"{path}: expected use cases, each with a list of clients")
    return {
        str(name): UseCase(str(name), tuple(from_tree(BevClient, entry, f"{path}: {name}") for entry in clients))
        for name, clients in tree.items()
    }


def load_use_case(name: str, path: Path | None = None) -> UseCase:
    """Return one use case, ``uc1`` to ``uc4``; an unknown name raises :class:`ConfigError`."""
    cases = load_use_cases(path)
    if name not in cases:
        raise ConfigError(f"no use case is called {name!r}; known: {', '.join(cases)}")
    return cases[name]


def find_clients(root: Path, case: UseCase) -> tuple[ClientFolders, ...]:
    """Return the clients of a use case with their scenario folders, found anywhere below ``root``.

    Raises:
        DataError: a scenario is not there or there twice.
    """
    found = files.find_scenarios(root)
    wanted = [name for client in case.clients for name in (*client.train, *client.test)]
    missing = [name for name in wanted if name not in found]
    if missing:
        raise DataError(
            f"{root} lacks {len(missing)} of the {len(wanted)} scenarios of {case.name}, the first is {missing[0]}"
        )
    return tuple(
        ClientFolders(client, tuple(found[name] for name in client.train), tuple(found[name] for name in client.test))
        for client in case.clients
    )


def list_clients(root: Path) -> tuple[ClientFolders, ...]:
    """Return the clients of a folder ``{train,test}/CLIENT/SCENARIO``.

    A file ``use_case.yaml`` in it tells names, vehicles and cameras; without one they are called as their folders, and
    have all four cameras.

    Raises:
        DataError: a client lacks a split, or a scenario is missing.
        ConfigError: a scenario both trains and tests, or the file is broken.
    """
    if (root / OWN_FILE).exists():
        cases = load_use_cases(root / OWN_FILE)
        return tuple(found for case in cases.values() for found in find_clients(root, case))
    splits = [_client_folders(root, split) for split in files.SPLITS]
    lonely = sorted(splits[0].keys() ^ splits[1].keys())
    if lonely or not splits[0]:
        who = f"client {lonely[0]} lacks" if lonely else "no client has"
        raise DataError(f"{root}: {who} scenarios for train or for test (expected {{train,test}}/CLIENT/SCENARIO)")
    case = UseCase(root.name, tuple(_client(name, *(split[name] for split in splits)) for name in sorted(splits[0])))
    return tuple(
        ClientFolders(client, tuple(splits[0][client.name].values()), tuple(splits[1][client.name].values()))
        for client in case.clients
    )


def _client_folders(root: Path, split: str) -> dict[str, dict[str, Path]]:
    """Return the scenario folders of the clients of a split; clients without any are left out."""
    folder = root / split
    children = sorted(child for child in folder.iterdir() if child.is_dir()) if folder.is_dir() else []
    found = {child.name: {path.name: path for path in files.list_scenarios(child)} for child in children}
    return {name: scenarios for name, scenarios in found.items() if scenarios}


def _client(name: str, train: Mapping[str, Path], test: Mapping[str, Path]) -> BevClient:
    kind = next((kind for kind in VEHICLES if kind in name), VEHICLES[-1])
    return BevClient(name, kind, ALL_CAMERAS, tuple(train), tuple(test))


def _first_twice(names: Sequence[str]) -> str:
    return next((name for name, count in Counter(names).items() if count > 1), "")
