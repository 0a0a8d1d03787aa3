"""The libraries of mmdet3d, imported where they are needed and silent."""

import contextlib
import importlib
import logging
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fed_core.errors import ConfigError

EXTRA_ABSENT = (
    "the network mmdet3d needs the extra 'detection' ({absent} is absent); run: make setup-detection (docs/mmdet3d.md)"
)
#: How mmcv says that it was built without an operation, or without it for this kind of device.
_OPERATION_ABSENT = (
    re.compile(r"(?P<op>\w+) is not implemented on (?P<place>\w+)", re.IGNORECASE),
    re.compile(r"(?P<op>\w+?)(?:_impl)?: implementation for device (?P<place>\w+)(?::\d+)? not found"),
    re.compile(r"(?P<op>\w+) is not compiled with (?P<place>\w+) support", re.IGNORECASE),
)
_FAMILY = r"mm(cv|det|det3d|engine)(\.|$)"
_MAX_REASON = 240


@dataclass(frozen=True)
class Libraries:
    """Attributes: the modules and classes of mmdet3d and mmengine that the adapter uses; they carry no types."""

    folder: str
    version: str
    models: Any
    default_scope: Any
    config: Any
    instances: Any
    sample: Any
    lidar_boxes: Any


def libraries() -> Libraries:
    """Import mmdet3d and what it stands on; without the extra, ConfigError says how to get it."""
    try:
        with silent():
            package = importlib.import_module("mmdet3d")
            importlib.import_module("mmdet3d.models")
            structures = importlib.import_module("mmdet3d.structures")
            registry = importlib.import_module("mmengine.registry")
            found = Libraries(
                folder=str(package.__path__[0]),
                version=str(package.__version__),
                models=importlib.import_module("mmdet3d.registry").MODELS,
                default_scope=registry.DefaultScope,
                config=importlib.import_module("mmengine.config").Config,
                instances=importlib.import_module("mmengine.structures").InstanceData,
                sample=structures.Det3DDataSample,
                lidar_boxes=structures.LiDARInstance3DBoxes,
            )
        # Kept for good, since forward passes may run in two threads at a time, which must not each put filters back.
        warnings.filterwarnings("ignore", module=_FAMILY)
        warnings.filterwarnings("ignore", message=r"torch\.meshgrid")
        return found
    except ModuleNotFoundError as err:
        raise ConfigError(EXTRA_ABSENT.format(absent=err.name)) from err
    except (ImportError, AssertionError) as err:  # mmdet3d asserts the versions of what it stands on
        text = f"mmdet3d is installed, but does not start ({reason(err)}); run: make setup-detection"
        raise ConfigError(text) from err


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Keep warnings and log lines of the libraries to themselves; all settings are as before afterwards."""
    before = logging.root.manager.disable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(max(before, logging.WARNING))
        try:
            yield
        finally:
            logging.disable(before)


@contextlib.contextmanager
def operations(config: str) -> Iterator[None]:
    """Turn what mmcv says of an operation that it lacks into one line about the config."""
    try:
        yield
    except (RuntimeError, NotImplementedError, ModuleNotFoundError) as err:
        for pattern in _OPERATION_ABSENT:
            found = pattern.search(str(err))
            if found:
                op, place = found["op"].removesuffix("_forward").removesuffix("_backward"), found["place"].lower()
                text = f"mmdet3d config {config} needs the operation {op}, which mmcv here lacks on {place}"
                advice = "train it where mmcv has it (a GPU) or take a config without it"
                raise ConfigError(f"{text}; {advice}") from err
        raise


def reason(err: BaseException) -> str:
    """Return what an error of the libraries says, on one line and not too long."""
    text = " ".join(str(err).split()) or type(err).__name__
    return text if len(text) <= _MAX_REASON else text[: _MAX_REASON - 3] + "..."
