"""The monitor and the node that calls services beside a live inference node, in real processes."""

import base64
import json
import signal
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from tests.ros.fleets import Fleet, record
from tests.ros.kept_models import keep_models

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]

TRIGGER = "std_srvs/srv/Trigger"


@pytest.fixture(scope="module")
def live(shared_fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """An inference node that serves depth of a recording which is played again and again, and a monitor."""
    folder: Path = tmp_path_factory.mktemp("watched")
    shared_fleet.nodes["monitor"] = shared_fleet.node("monitor", pictures=True)
    shared_fleet.nodes["blind"] = shared_fleet.node("monitor", "blind")
    shared_fleet.inference(state_dir=keep_models(folder / "models"))
    shared_fleet.replay("live", record(folder / "bag"), loop=True, rate_hz=20.0)
    return shared_fleet


def told(process: Any, kind: str, timeout_s: float = 150.0) -> dict[str, Any]:
    """Return the next line of a kind."""
    line: dict[str, Any] = json.loads(process.wait_line(rf'\{{"kind": "{kind}"', timeout_s).string)
    return line


def test_the_monitor_shows_what_inference_publishes_once_in_two_seconds(live: Fleet) -> None:
    monitor = live.nodes["monitor"]
    pictures = [told(monitor, "picture") for _ in range(3)]
    first = pictures[0]
    assert (first["source"], first["what"], first["mime"]) == ("/live", "depth", "image/jpeg")
    assert (first["width"], first["height"]) == (64, 48)
    data = np.frombuffer(base64.b64decode(first["image"]), np.uint8)
    assert cv2.imdecode(data, cv2.IMREAD_COLOR).shape == (48, 64, 3)
    times = [picture["time_s"] for picture in pictures]
    assert min(np.diff(times)) > 1.99, times  # the replay has 20 images a second
    assert first["stamp_s"] == pytest.approx(1_577_836_800, abs=3 * 86_400)  # recorded in 2020


def test_without_pictures_the_monitor_does_not_listen_to_images(live: Fleet) -> None:
    readers = live.watcher.node.get_subscriptions_info_by_topic
    live.watcher.until(lambda: [end.node_namespace for end in readers("/live/depth/image")] == ["/"], 90.0)
    blind = live.nodes["blind"]
    assert told(blind, "services")["services"] is not None
    assert not [line for line in blind.output if line.startswith('{"kind": "picture"')]
    assert "cv2" not in Path(f"/proc/{blind.pid}/maps").read_text()


def lists(monitor: Any) -> list[Any]:
    """Return the lists of services that a monitor told."""
    lines = [json.loads(line) for line in monitor.output if line.startswith('{"kind": "services"')]
    return [line["services"] for line in lines]


def test_what_the_monitor_lists_can_be_called(live: Fleet) -> None:
    wanted = {f"/live/{name}" for name in ("new_sequence", "replay/restart", "replay/start", "replay/stop")}
    listed = [{"name": name, "type": TRIGGER} for name in sorted(wanted)]
    live.watcher.until(lambda: lists(live.nodes["monitor"])[-1:] == [listed], 90.0)
    every = lists(live.nodes["monitor"])
    assert all(before != after for before, after in zip(every, every[1:], strict=False))
    control = live.node("control")
    control.tell(json.dumps({"id": 1, "service": "/live/replay/stop", "type": TRIGGER}))
    answer = json.loads(control.wait_line(r'\{"id": 1,', 60.0).string)
    assert answer["ok"] and answer["text"].startswith("stopped at frame "), answer
    control.tell("stop!")
    assert "a line is no JSON" in control.wait_line(r'\{"id": null,').string
    control.tell(json.dumps({"id": 2, "service": "/live/replay/start", "type": TRIGGER}))
    assert json.loads(control.wait_line(r'\{"id": 2,').string)["ok"]
    control._child.stdin.close()
    assert control.wait(30.0) == 0
    assert not any("Traceback" in line for line in control.output), control.output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_control_ends_with_0_when_it_is_told_to_while_it_waits_for_input(live: Fleet, number: int) -> None:
    control = live.node("control")
    control.tell("{}")
    control.wait_line(r'\{"id": null, "ok": false, "text": "id is null', 60.0)
    assert control.stop(number, 30.0) == 0
    assert len(control.output) == 1, control.output


def test_control_without_input_ends_at_once(live: Fleet) -> None:
    control = live.node("control")
    control._child.stdin.close()
    assert control.wait(60.0) == 0 and control.output == []


def test_a_bad_parameter_of_control_is_one_line(live: Fleet) -> None:
    control = live.node("control", wait_s=0.0)
    assert control.wait(60.0) == 2
    control.close()
    assert [line for line in control.output if line.startswith("error: ")] == control.output
    assert "wait_s" in control.output[0]
