"""Published names of NeWCRFs (github.com/aliyun/NeWCRFs)."""

from collections.abc import Sequence

from fed_models.checkpoints.names import NameMap
from fed_models.checkpoints.windows import encoder_names, field_names


def published_names(depths: Sequence[int]) -> NameMap:
    """Return the names of a network whose encoder has stages of ``depths`` blocks."""
    modules = {
        "decoder.bottleneck.conv": "pooling.join.0",
        "decoder.bottleneck.bn": "pooling.join.1",
        "disp_head1.conv1": "head",
    }
    for i in range(4):
        modules[f"decoder.psp_modules.{i}.1.conv"] = f"pooling.branches.{i}.1"
        modules[f"decoder.psp_modules.{i}.1.gn"] = f"pooling.branches.{i}.2"
    names = encoder_names(depths) | NameMap(modules)
    for i in range(4):
        names |= field_names(f"crf{3 - i}", f"crfs.{i}")
    return names
