"""Two fleets on one machine never share a ROS domain by chance; what the user set stays."""

from pathlib import Path

import pytest

from fed_cli.fleetrun import environment
from fed_cli.fleetrun.environment import local_environment, lock_domain, running_fleets
from fed_cli.fleetrun.watching import Watch, domain_of
from fed_core.errors import ConfigError


def test_a_domain_is_given_to_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    taken = [lock_domain() for _ in range(100)]
    assert {number for number, _ in taken} == set(range(1, 101))
    with pytest.raises(
        ConfigError, match="^all 100 ROS domains are locked in .*; end other fleets, or set ROS_DOMAIN_ID"
    ):
        lock_domain()
    number, lock = taken.pop()
    lock.close()
    again, lock = lock_domain()
    assert again == number
    for file in (lock, *(file for _, file in taken)):
        file.close()


def test_a_run_keeps_its_domain_and_a_chosen_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(environment, "_held", [])
    monkeypatch.delenv("ROS_DOMAIN_ID", raising=False)
    found = {local_environment(tmp_path)["ROS_DOMAIN_ID"] for _ in range(30)}
    assert len(found) == 30
    monkeypatch.setenv("ROS_DOMAIN_ID", "7")
    assert local_environment(tmp_path)["ROS_DOMAIN_ID"] == "7"
    for file in environment._held:
        file.close()


def test_a_demo_that_runs_is_found_with_its_folder_and_gone_with_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(environment, "_held", held := [])
    monkeypatch.delenv("ROS_DOMAIN_ID", raising=False)
    assert running_fleets() == {}
    local_environment(tmp_path / "played")
    assert running_fleets() == {}  # nobody asked to be shown
    domain = local_environment(tmp_path / "demo", shown=True)["ROS_DOMAIN_ID"]
    assert running_fleets() == {int(domain): str(tmp_path / "demo")}
    assert domain_of(Watch()) == domain
    assert domain_of(Watch(domain_id=7)) == "7"
    monkeypatch.setenv("ROS_DOMAIN_ID", "12")
    assert domain_of(Watch()) == "12"
    monkeypatch.delenv("ROS_DOMAIN_ID")
    local_environment(tmp_path / "other", shown=True)
    assert domain_of(Watch()) == "0"  # which of both?
    for lock in held:
        lock.close()
    assert running_fleets() == {}
