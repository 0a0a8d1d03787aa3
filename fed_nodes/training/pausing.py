"""Pauses a robot's training: service ``pause_training``, topic ``battery``, heat and load of the machine."""

import math
from collections.abc import Callable
from dataclasses import replace

from rclpy.node import Node
from sensor_msgs.msg import BatteryState
from std_srvs.srv import SetBool

from fed_nodes import qos
from fed_nodes.timers import steady_timer
from fed_nodes.training.machine import OthersLoad, cpu_temperature_c
from fed_nodes.training.yielding import Readings, Yielding, YieldingConfig


class Pausing:
    """Looks once a second whether training must give way, and tells the training process when that changes.

    Args:
        node: gets the service, the subscription and a timer.
        config: when it gives way.
        pid: tells the training process; None where none runs.
        pause: called with True when training must pause, with False when it may go on.
    """

    def __init__(
        self, node: Node, config: YieldingConfig, pid: Callable[[], int | None], pause: Callable[[bool], None]
    ) -> None:
        self._node, self._config, self._pause = node, config, pause
        self._yielding, self._load = Yielding(config), OthersLoad(pid)
        self._now = Readings()
        self._reason = ""
        self._no_sensor_told = False
        node.create_service(SetBool, "pause_training", self._on_request)
        node.create_subscription(BatteryState, "battery", self._on_battery, qos.SENSORS)
        steady_timer(node, 1.0, self.look)

    @property
    def reason(self) -> str:
        """Why training is paused, for people; empty where it is not."""
        return self._reason

    def text(self, text: str) -> str:
        """Return what a status says to people, with the pause in front."""
        if not self._reason:
            return text
        return f"training paused: {self._reason}" + (f" ({text})" if text else "")

    def values(self) -> dict[str, str]:
        """Return the values for diagnostics."""
        shown = {"battery": self._now.battery, "cpu_c": self._now.cpu_c, "load_of_others": self._now.load}
        known = {name: f"{value:.2f}" for name, value in shown.items() if not math.isnan(value)}
        return {"training_paused": self._reason or "no", **known}

    def change(self, config: YieldingConfig) -> None:
        """Take other limits from now on."""
        self._config = config
        self._yielding.change(config)
        self.look()

    def look(self) -> None:
        """Read the machine, and decide."""
        heat = cpu_temperature_c() if self._config.cpu_hot_c > 0 else math.nan
        if self._config.cpu_hot_c > 0 and math.isnan(heat) and not self._no_sensor_told:
            self._no_sensor_told = True
            self._node.get_logger().warning("cpu_hot_c is set, but this machine tells no temperature; it is ignored")
        self._now = replace(self._now, cpu_c=heat, load=self._load.read() if self._config.load_high > 0 else math.nan)
        self._decide()

    def _decide(self) -> None:
        before, self._reason = self._reason, self._yielding.decide(self._now)
        if bool(before) is bool(self._reason):
            return
        self._pause(bool(self._reason))
        self._node.get_logger().info(f"training pauses: {self._reason}" if self._reason else "training goes on")

    def _on_request(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        self._now = replace(self._now, asked=request.data)
        self._decide()
        response.success = True
        response.message = self.text("") or "training is not paused"
        return response

    def _on_battery(self, msg: BatteryState) -> None:
        charge = _charge(msg)
        if not math.isnan(charge) and not 0.0 <= charge <= 1.0:
            text = "battery: charge is %g, and sensor_msgs/BatteryState counts from 0 to 1; ignored, correct its driver"
            self._node.get_logger().warning(text % charge, throttle_duration_sec=60.0)
            return
        self._now = replace(self._now, battery=charge)
        self._decide()


def _charge(msg: BatteryState) -> float:
    """Return the charge [0..1], from the charge in ampere-hours where the driver tells no share; NaN = unknown."""
    if not math.isnan(msg.percentage):
        return float(msg.percentage)
    capacity = msg.capacity if msg.capacity > 0 else msg.design_capacity
    return float(msg.charge / capacity) if capacity > 0 else math.nan
