"""Published names of DCDepth (github.com/w2kun/DCDepth)."""

from collections.abc import Sequence

from fed_models.blocks.progressive import COUNTS
from fed_models.checkpoints.names import NameMap, under
from fed_models.checkpoints.windows import encoder_names, field_names

_DOWNSAMPLE = ((".conv1", ".thin"), *((f".conv2.{i}", f".mix.{i}") for i in range(3)))
_FUSE = (
    *((f"fuse.0.attention.{i}", f"fuse.0.weigh.{i}") for i in (0, 2)),
    *((f"fuse.{i}", f"fuse.{i}") for i in (1, 2, 3)),
)
_FEEDBACK = (
    *((f"fuse.0.attention.{i}", f"fuse.0.weigh.{i}") for i in (0, 2)),
    *((f"fuse.1.{i}", f"fuse.1.{i}") for i in (0, 1)),
    ("depth_in.0.0", "depth_encoder.0"),
    ("depth_in.1.0", "depth_encoder.2"),
    ("depth_in.2", "depth_encoder.4"),
)
_COEFFICIENTS = (
    ("tokenize.0.0", "tokens.0"),
    ("tokenize.1.0", "tokens.2"),
    ("tokenize.2", "tokens.4"),
    ("attn.q", "q"),
    ("attn.kv", "kv"),
    ("attn.proj", "proj"),
    ("norm", "norm"),
)
_GRU = tuple(
    (f"conv{letter}{number}", f"{axis}.{name}")
    for number, axis in ((1, "rows"), (2, "columns"))
    for letter, name in (("z", "update"), ("r", "reset"), ("q", "candidate"))
)
_HEADS = (
    *((f"ppm.pool_convs.{i}", f"pooling.branches.{i}") for i in range(4)),
    *((f"ppm.squeeze.0.{i}", f"pooling.join.0.{i}") for i in range(2)),
    *((f"convs.{i}", f"convs.{i}") for i in range(len(COUNTS))),
)


def published_names(depths: Sequence[int]) -> NameMap:
    """Return the names of a network whose encoder has stages of ``depths`` blocks."""
    modules = {"project_hidden": "state"}
    for i in range(3):
        modules |= under(f"decoder.downs.{i}", f"fusion.downs.{i}", _DOWNSAMPLE)
    modules |= under("project_context", "context", _DOWNSAMPLE)
    modules |= under("decoder.", "fusion.", _FUSE)
    modules |= under("update.in_proj.", "steps.", _FEEDBACK)
    modules |= under("update.in_proj.depth_freq_in.", "steps.coefficient_encoder.", _COEFFICIENTS)
    modules |= under("update.gru.", "steps.gru.", _GRU)
    modules |= under("update.heads.", "steps.heads.", _HEADS)
    tensors = under("update.heads.idx_embed", "steps.heads.embeddings", [(f".{i}",) * 2 for i in range(len(COUNTS))])
    learned = (("cls_token", "class_token"), ("pos_embed", "positions"))
    tensors |= under("update.in_proj.depth_freq_in.", "steps.coefficient_encoder.", learned)
    names = encoder_names(depths) | NameMap(modules, tensors=tensors, skips=_skips())
    for i in range(3):
        names |= field_names(f"crf{3 - i}", f"crfs.{i}")
    return names


def _skips() -> dict[str, str]:
    order = "constant, the order of prediction"
    skips = {f"update._indices_{i}": order for i in range(len(COUNTS) - 1)}
    skips |= {f"update._cum_indices_{i + 1}": order for i in range(len(COUNTS) - 1)}
    skips["update.freq_reg._weight"] = "constant of the loss"
    skips["si_log._weight"] = "constant of the loss"
    return skips
