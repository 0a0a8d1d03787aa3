"""The network of a run, built in the size that is exported, with the weights that were chosen."""

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from fed_cli.exporting.choice import Chosen
from fed_core.config import to_tree
from fed_core.errors import ConfigError, WireError

#: Options that name a file of weights to start from; what they gave is overwritten here.
START = ("weights", "checkpoint")
#: Options by which networks take their size: height and width, or one side of a square.
_SIZES = (("height", "width"), ("image_height", "image_width"), ("image",))


def parse_size(text: str | None) -> tuple[int, int] | None:
    """Return (H, W) [pixels] of a text such as "96x160".

    Raises:
        ConfigError: it is none.
    """
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,5})x(\d{1,5})", text)
    if found is None or not all(map(int, found.groups())):
        raise ConfigError(f"--size is {text!r}; give height x width in pixels, as 96x160")
    return int(found[1]), int(found[2])


def sized(network: str, options: Mapping[str, Any], size: tuple[int, int] | None) -> dict[str, Any]:
    """Return a network's options for images of (H, W) [pixels]; None = as they are.

    Raises:
        ConfigError: the network has no option for that.
    """
    found = dict(to_tree(options))
    if size is None:
        return found
    from fed_models import networks

    known = {field.name for field in fields(networks.get(network))}  # type: ignore[arg-type]
    names = next((names for names in _SIZES if known.issuperset(names)), None)
    if names is None:
        raise ConfigError(f"the network {network} has no option for its size; leave --size away")
    if len(names) == 1 and size[0] != size[1]:
        raise ConfigError(f"the network {network} takes square images, and --size is {size[0]}x{size[1]}")
    return {**found, **dict(zip(names, size, strict=False))}


def build_filled(chosen: Chosen, options: Mapping[str, Any], *, resized: bool) -> tuple[Any, Any]:
    """Return the network with the chosen weights in eval mode, and another one of the same kind.

    Raises:
        ConfigError: the weights do not fit a network with these options.
    """
    from fed_models import build, load_arrays

    name, weights = chosen.run.plan.config.network, chosen.weights()
    plain = {key: "" if key in START else value for key, value in options.items()}
    network, fresh = (build(name, plain).eval() for _ in range(2))
    try:
        load_arrays(network, weights)
    except WireError as err:
        hint = "in this size; leave --size away" if resized else "of this version; use the one that trained them"
        raise ConfigError(f"the weights of the run do not fit the network {name} {hint} ({err})") from err
    return network, fresh
