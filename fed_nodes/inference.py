"""ROS 2 lifecycle node of the inference role: chooses models for the running sequence and serves live predictions."""

import sys

from rclpy._rclpy_pybind11 import InvalidHandle, RCLError
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn

from fed_core.errors import FedError
from fed_nodes import params, run
from fed_nodes.diagnostics import Diagnostics
from fed_nodes.live.config import InferenceConfig
from fed_nodes.live.session import LiveInference
from fed_nodes.timers import steady_timer


class InferenceNode(LifecycleNode):
    """Lifecycle of the live output. Parameters: InferenceConfig."""

    def __init__(self) -> None:
        super().__init__("inference")
        self._config = params.load(self, InferenceConfig, self._on_change)
        self._live: LiveInference | None = None
        self._diagnostics = Diagnostics(self, self._config.reader_id, self._health)
        if self._config.autostart:
            self._starter = steady_timer(self, 0.0, self._autostart)

    def _autostart(self) -> None:
        self._starter.cancel()
        if self.trigger_configure() == TransitionCallbackReturn.SUCCESS:
            self.trigger_activate()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Open topics, ask the aggregator for access; PyTorch is loaded meanwhile."""
        live = LiveInference(self, self._config)
        try:
            live.open()
        except FedError as err:
            self.get_logger().error(str(err))
        except (InvalidHandle, RCLError):
            if self.context.ok():  # else it was told to stop while it loaded
                raise
        else:
            self._live = live
            return TransitionCallbackReturn.SUCCESS
        live.close()
        return TransitionCallbackReturn.FAILURE

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Publish from now on."""
        found = super().on_activate(state)
        if self._live is not None:
            self._live.activate()
        return found

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Publish nothing."""
        if self._live is not None:
            self._live.active = False
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close topics, forget the models."""
        self._close()
        return TransitionCallbackReturn.SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close everything."""
        self._close()
        return TransitionCallbackReturn.SUCCESS

    def _on_change(self, config: InferenceConfig) -> None:
        self._config = config
        if self._live is not None:
            self._live.change(config)

    def _close(self) -> None:
        if self._live is not None:
            self._live.close()
            self._live = None

    def _health(self) -> tuple[str, str, dict[str, str]]:
        if self._live is None:
            return "warn", "unconfigured", {}
        return self._live.health()

    def destroy_node(self) -> None:
        """Stop the thread, then the node."""
        self._close()
        super().destroy_node()


def main() -> int:
    """Run the node."""
    return run.main(InferenceNode)


if __name__ == "__main__":
    sys.exit(main())
