"""Bare forward passes of a depth network on the frames of ``live_camera``: a count in, a list of times out [ms]."""

import json
import sys
import time
from typing import Any

import torch
from live_camera import pictures

from fed_core.tasks.depth.task import DepthTask
from fed_models import build


def main() -> None:
    """Work off counts until standard input ends."""
    torch.set_num_threads(1)
    network: Any = build(sys.argv[1], {}).eval().to(sys.argv[2])
    task, images = DepthTask(), pictures()
    tensors: list[Any] = []
    plain = network.forward

    def caught(image: Any) -> Any:
        tensors.append(image)
        return plain(image)

    network.forward = caught
    for image in images:  # what the task makes of them is what the network sees
        task.predict(network, image)
    for line in sys.stdin:
        times = []
        with torch.inference_mode():
            for number in range(int(line)):
                start = time.perf_counter()
                plain(tensors[number % len(tensors)])
                if torch.cuda.is_initialized():
                    torch.cuda.synchronize()
                times.append(1e3 * (time.perf_counter() - start))
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
