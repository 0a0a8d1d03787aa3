"""What stands in deploy/ for services of systemd."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
NODES = [path for path in UNITS if path.stem != "fed-discovery"]
FLEETS = pytest.mark.parametrize("path", NODES, ids=lambda path: path.name)


class Lines(dict[str, str]):
    """Lets a key of a unit come several times, as systemd does."""

    def __setitem__(self, key: str, value: object) -> None:
        if isinstance(value, list) and isinstance(self.get(key), list):
            self[key].extend(value)  # type: ignore[attr-defined]
        else:
            super().__setitem__(key, value)  # type: ignore[assignment]


def service(path: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser(strict=False, dict_type=Lines)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text(encoding="utf-8"))
    assert {"Unit", "Service", "Install"} == set(parser.sections())
    return dict(parser["Service"])


def test_every_unit_is_there() -> None:
    assert {path.name for path in UNITS} == {"fed-robot@.service", "fed-aggregator.service", "fed-discovery.service"}


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_takes_the_unit(path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    done = subprocess.run([analyze, "verify", str(path)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@FLEETS
def test_nodes_start_again_unless_they_cannot_start(path: Path) -> None:
    unit = service(path)
    assert (unit["Restart"], unit["RestartPreventExitStatus"]) == ("on-failure", "2")
    assert (unit["KillSignal"], unit["KillMode"]) == ("SIGINT", "mixed")
    assert int(unit["TimeoutStopSec"]) > 15  # a network that is being loaded cannot be interrupted


@FLEETS
def test_nodes_have_what_ros_needs_and_bounds_of_memory(path: Path) -> None:
    unit = service(path)
    told = dict(line.split("=", 1) for line in unit["Environment"].split("\n"))
    wanted = {"HOME", "ROS_DOMAIN_ID", "RMW_IMPLEMENTATION", "ROS_AUTOMATIC_DISCOVERY_RANGE", "FED_WORKSPACE"}
    assert wanted <= set(told)
    assert told["HOME"] == unit["WorkingDirectory"]  # ProtectHome leaves no other
    assert unit["WorkingDirectory"] == f"/var/lib/{unit['StateDirectory']}"
    assert int(unit["MemoryHigh"].rstrip("%")) < int(unit["MemoryMax"].rstrip("%")) < 100


@FLEETS
def test_started_programs_and_variables_exist(path: Path) -> None:
    text, setup = service(path)["ExecStart"], (ROOT / "setup.py").read_text(encoding="utf-8")
    program = re.search(r"lib/fed_perception/(\w+)", text)
    assert program and f'"{program[1]} = fed_nodes.{program[1]}:main"' in setup
    told = {line.split("=", 1)[0] for line in service(path)["Environment"].split("\n")}
    assert set(re.findall(r"\$(\w+)", text)) <= told


@FLEETS
def test_settings_of_a_machine_are_known_to_the_unit_or_to_ros(path: Path) -> None:
    unit = service(path)
    file = Path(unit["EnvironmentFile"].lstrip("-")).name
    lines = (ROOT / "deploy" / file).read_text(encoding="utf-8").splitlines()
    assert f"/etc/fed_perception/{file}" in lines[0] and path.name in lines[0]
    names = {match[1] for line in lines if (match := re.match(r"#?([A-Z_]+)=", line))}
    of_ros = {"ROS_STATIC_PEERS", "ROS_DISCOVERY_SERVER", "FASTDDS_DEFAULT_PROFILES_FILE"}
    told = {line.split("=", 1)[0] for line in unit["Environment"].split("\n")}
    assert names <= told | of_ros
    assert (ROOT / "config/fastdds/fleet.xml").is_file()


def values(text: str, node: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text)[f"/**/{node}"]["ros__parameters"]
    return found


def test_parameters_of_the_page_are_those_of_the_nodes() -> None:
    page = (ROOT / "docs/deploy.md").read_text(encoding="utf-8")
    inference, aggregator = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    known = {name: values((ROOT / f"config/{name}.yaml").read_text(), name) for name in ("aggregator", "robot_client")}
    # Both nodes run in one folder.
    assert values(inference, "inference") == {"robot_dir": known["robot_client"]["state_dir"]}
    told = values(aggregator, "aggregator")
    assert told and {name: type(value) for name, value in told.items()} == {
        name: type(known["aggregator"][name]) for name in told
    }


def test_units_are_installed_with_the_package() -> None:
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert '*share("deploy")' in setup and '".service"' in setup and '".env"' in setup
