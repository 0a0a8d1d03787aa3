"""The clients of OPV2V and FedBEVT, as lists and as folders."""

from pathlib import Path

import pytest

from fed_core.data.opv2v.sequence import BevOptions
from fed_core.data.opv2v.use_cases import UseCase, find_clients, list_clients, load_use_case, load_use_cases
from fed_core.errors import ConfigError, DataError
from tests.core.data.opv2v_trees import SCENARIO, write_frame

OTHER = "2021_08_18_09_02_56"


def sizes(case: UseCase) -> dict[str, tuple[int, int]]:
    return {client.name: (len(client.train), len(client.test)) for client in case.clients}


def test_use_cases_have_the_clients_of_the_papers() -> None:
    assert sizes(load_use_case("uc1")) == {"bus": (7, 2), "truck": (8, 1), "car": (43, 9)}
    assert sizes(load_use_case("uc2")) == {"bus": (7, 2), "truck": (8, 1), "car_a": (16, 4), "car_b": (14, 3)}
    assert list(sizes(load_use_case("uc4")).values()) == [(11, 3), (11, 2), (10, 2)]
    assert [client.cameras for client in load_use_case("uc4").clients] == [(0,), (0, 1, 2), (0, 1, 2, 3)]


def test_use_case_3_has_24_small_clients() -> None:
    clients = load_use_case("uc3").clients
    kinds = [client.vehicle for client in clients]
    assert (kinds.count("bus"), kinds.count("truck"), kinds.count("car")) == (3, 4, 17)
    assert all(1 <= len(client.train) <= 2 and len(client.test) == 1 for client in clients)


@pytest.mark.parametrize("name", ["uc1", "uc2", "uc3", "uc4"])
def test_no_scenario_both_trains_and_tests(name: str) -> None:
    clients = load_use_case(name).clients
    trained = {scenario for client in clients for scenario in client.train}
    tested = {scenario for client in clients for scenario in client.test}
    assert trained and tested and not trained & tested
    assert "2021_09_09_13_20_58" not in trained | tested  # its camera data is faulty
    assert all(s.startswith("2023") == (c.vehicle != "car") for c in clients for s in (*c.train, *c.test))


def test_cars_of_use_case_1_train_on_all_of_use_case_2() -> None:
    car = load_use_case("uc1").clients[2]
    others = [c for c in load_use_case("uc2").clients if c.vehicle == "car"]
    assert {s for c in others for s in (*c.train, *c.test)} < set(car.train)


def write_case(path: Path, train: str, test: str) -> Path:
    path.write_text(f"mine:\n  - {{name: a, vehicle: car, cameras: [0, 3], train: [{train}], test: [{test}]}}\n")
    return path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("uc1: bus", "expected use cases, each with a list of clients"),
        ("[1]", "expected use cases, each with a list of clients"),
        ("uc1: [{vehicle: car}]", "key 'name' is missing"),
        ("uc1: [{name: a, vehicle: tram}]", "vehicle is 'tram'; choose one of bus, truck, car"),
        ("uc1: [{name: a, vehicle: car, train: [2021_08_18_09_02_56]}]", "expected str, got 20210818090256"),
        ("uc1: [{name: a, vehicle: car, train: ['last week']}]", "client a: 'last week' is no usable scenario"),
        ("uc1: [{name: a, vehicle: car}, {name: a, vehicle: bus}]", "use case uc1 has two clients called a"),
    ],
)
def test_broken_lists_are_told(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "cases.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_use_cases(tmp_path / "cases.yaml")
    assert told in str(caught.value)


def test_a_scenario_in_train_and_test_is_refused(tmp_path: Path) -> None:
    path = write_case(tmp_path / "cases.yaml", f'"{SCENARIO}"', f'"{SCENARIO}"')
    with pytest.raises(ConfigError, match=f"use case mine lists scenario {SCENARIO} twice"):
        load_use_case("mine", path)
    with pytest.raises(ConfigError, match="no use case is called 'uc9'; known: uc1, uc2, uc3, uc4"):
        load_use_case("uc9")


def test_scenarios_are_found_in_any_grouping(tmp_path: Path) -> None:
    write_frame(tmp_path / "validate" / SCENARIO / "1", "000001")
    write_frame(tmp_path / "somewhere" / "else" / OTHER / "1", "000001")
    case = load_use_case("mine", write_case(tmp_path / "cases.yaml", f'"{SCENARIO}"', f'"{OTHER}"'))

    (client,) = find_clients(tmp_path, case)

    assert client.train == (tmp_path / "validate" / SCENARIO,)
    assert client.open("test", BevOptions(cameras=(0, 3), map_size=16))[0].cameras == (0, 3)
    assert client.open("train").options.cameras == (0, 3)
    with pytest.raises(DataError, match="lacks 12 of the 12 scenarios of uc9"):
        find_clients(tmp_path, UseCase("uc9", load_use_case("uc4").clients[2:]))


def test_clients_of_a_folder(tmp_path: Path) -> None:
    write_frame(tmp_path / "train" / "client_1" / SCENARIO / "1", "000001")
    write_frame(tmp_path / "test" / "client_1" / OTHER / "1", "000001")

    (client,) = list_clients(tmp_path)

    assert (client.client.name, client.client.train, client.client.test) == ("client_1", (SCENARIO,), (OTHER,))
    write_case(tmp_path / "use_case.yaml", f'"{SCENARIO}"', f'"{OTHER}"')
    (named,) = list_clients(tmp_path)
    assert named.client.name == "a" and named.train == client.train


def test_folders_without_both_splits_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no client has scenarios for train or for test"):
        list_clients(tmp_path)
    write_frame(tmp_path / "train" / "client_1" / SCENARIO / "1", "000001")
    with pytest.raises(DataError, match="client client_1 lacks scenarios for train or for test"):
        list_clients(tmp_path)
    write_frame(tmp_path / "test" / "client_1" / SCENARIO / "1", "000001")
    with pytest.raises(ConfigError, match=f"lists scenario {SCENARIO} twice"):
        list_clients(tmp_path)
