"""Images that a depth network can fit, made from a seed."""

import torch

from fed_core.training.losses import silog

#: Steps of a training run, at most.
MOST = 220


def frames(count: int = 8, height: int = 64, width: int = 96) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (B, 3, H, W) of boxes before a slope, and their depth (B, 1, H, W), 1 to 20 m; shading tells the depth."""
    generator = torch.Generator().manual_seed(1)
    depth = (1.0 + 19.0 * torch.linspace(1.0, 0.0, height) ** 2).view(1, 1, height, 1).repeat(count, 1, 1, width)
    for one in depth:
        for _ in range(4):
            row = int(torch.randint(0, height - 30, (), generator=generator))
            column = int(torch.randint(0, width - 40, (), generator=generator))
            one[0, row : row + 30, column : column + 40] = 1.0 + 19.0 * torch.rand((), generator=generator)
    return 1.0 / depth + 0.05 * torch.randn(count, 3, height, width, generator=generator), depth


def losses_of_fit(network: torch.nn.Module, rate: float) -> list[float]:
    """Train on eight frames until silog is below 1.5 or a fifth of its start; return silog by step.

    The goal must hold three steps in a row. The rate rises and falls (one cycle), as in the papers' recipes.
    """
    x, depth = frames()
    optimizer = torch.optim.AdamW(network.parameters(), rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=MOST, pct_start=0.1)
    losses: list[float] = []
    while len(losses) < MOST and not (losses and max(losses[-3:]) < max(1.5, 0.2 * losses[0])):
        output = network(x)
        losses.append(silog(output.depth, depth, depth > 0).item())
        optimizer.zero_grad()
        network.loss(output, depth, depth > 0).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return losses
