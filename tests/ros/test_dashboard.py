"""``fedperc dashboard`` beside a fleet: what it hears, sees and does reaches a browser, and it ends cleanly."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from sensor_msgs.msg import Image
from std_srvs.srv import SetBool

from fed_nodes import qos
from tests.cli.web.tabs import WIDE, Tab
from tests.ros.conftest import RosProcess
from tests.ros.fleets import Watcher

DASHBOARD = [sys.executable, "-m", "fed_cli", "dashboard"]


def test_a_live_fleet_in_a_browser(told: Watcher, ros_process: Callable[..., RosProcess], browser: Any) -> None:
    asked: list[bool] = []

    def pause(request: Any, response: Any) -> Any:
        asked.append(request.data)
        response.success, response.message = True, "training is paused"
        return response

    told.node.create_service(SetBool, "/spot1/pause_training", pause)
    depth = np.tile(np.linspace(1.0, 9.0, 64, dtype=np.float32), (48, 1))
    image = Image(height=48, width=64, encoding="32FC1", step=256, data=depth.tobytes())
    eye = told.node.create_publisher(Image, "/spot1/depth/image", qos.OUTPUTS)
    told.node.create_timer(0.2, lambda: eye.publish(image))

    token = {"FED_PERCEPTION_TOKEN": "correct-horse"}
    process = ros_process([*DASHBOARD, "--host", "0.0.0.0", "--port", "0"], environment=token)
    port = process.wait_line(r"dashboard: http://0\.0\.0\.0:(\d+)/$", 60.0)[1]
    process.wait_line(r"warning: the token travels unencrypted to 0\.0\.0\.0; use an SSH tunnel or a proxy with TLS$")

    tab = Tab(browser, WIDE)
    tab.page.set_default_timeout(60_000)  # the monitor starts beside it
    tab.page.goto(f"http://127.0.0.1:{port}/")
    tab.shows("#title", "yard")
    tab.shows('#robots-rows tr:nth-child(1) td[data-title="Loss"]', "0.750")
    assert tab.texts("#robots-rows .pill") == ["reported", "away"]
    tab.page.wait_for_function("() => document.querySelectorAll('#faults-list li').length === 3")
    assert tab.texts("#faults-list strong") == ["/spot1/inference", "spot2", "spot2"]
    tab.shows("#serving-table tbody th", "/spot1")
    tab.page.wait_for_function("() => document.querySelector('#pictures img')?.naturalWidth > 0")
    assert tab.page.locator("#pictures img").get_attribute("alt") == "/spot1: depth"

    tab.page.fill("#token", "correct-horse")
    tab.page.get_by_role("button", name="Pause training of /spot1").click()
    tab.shows("#act .result", "Pause training of /spot1: training is paused")
    assert asked == [True]
    assert tab.complaints == []
    tab.close()

    assert process.stop(timeout_s=40.0) == 130
    assert process.output[-1] == "stopped"
    told.until(lambda: not {"monitor", "control"} & set(told.node.get_node_names()))
