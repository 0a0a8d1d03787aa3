"""What loss_weighted must do: the tests that every strategy inherits, and its own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fed_core.errors import StrategyError
from fed_core.strategies.base import LocalResult, RobotPlan, Update, make_strategy
from fed_core.testing.fleet import Weights
from fed_core.testing.strategy import StrategyContract


class TestLossWeighted(StrategyContract):
    """Runs the contract, then what is particular."""

    plugin = Path(__file__).with_name("loss_weighted.py")
    name = "loss_weighted"

    def adds(self, robot_id: str, weights: Weights, plan: RobotPlan) -> LocalResult:
        """Stand for the robot half in the fleets without training."""
        return LocalResult(scalars={"mean_loss": 1.0 + len(robot_id) + ord(robot_id[0]) % 3})

    def test_shares_follow_samples_and_loss(self) -> None:
        """10 x 3 and 30 x 2 against each other are a third and two thirds."""
        self.make()
        by_loss: Any = make_strategy("loss_weighted", {"q": 1.0})
        by_samples: Any = make_strategy("loss_weighted", {"q": 0.0})
        ana = Update("ana", 10, {}, scalars={"mean_loss": 3.0})
        bob = Update("bob", 30, {}, scalars={"mean_loss": 2.0})
        np.testing.assert_allclose(by_loss.shares([ana, bob]), [1 / 3, 2 / 3])
        np.testing.assert_allclose(by_samples.shares([ana, bob]), [1 / 4, 3 / 4])

    def test_a_robot_without_the_plugin_is_named(self) -> None:
        """Its update lacks the loss."""
        strategy: Any = self.make()
        with pytest.raises(StrategyError, match="robot 'ana' sent no mean_loss, but nan; give every robot this plugin"):
            strategy.shares([Update("ana", 10, {})])
