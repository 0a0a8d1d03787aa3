"""Names of the authors' Swin Transformer as NeWCRFs and DCDepth use it, and of their fields."""

from collections.abc import Sequence

from fed_models.checkpoints.names import CONSTANTS, NameMap, under

_BLOCK = (
    ("norm1", "layernorm_before"),
    ("norm2", "layernorm_after"),
    ("attn.proj", "attention.o_proj"),
    ("mlp.fc1", "mlp.fc1"),
    ("mlp.fc2", "mlp.fc2"),
)
_FIELD_BLOCK = (
    ("norm1", "norm1"),
    ("norm2", "norm2"),
    ("attn.qk", "attention.qk"),
    ("attn.proj", "attention.proj"),
    ("mlp.fc1", "mlp.0"),
    ("mlp.fc2", "mlp.2"),
)


def encoder_names(depths: Sequence[int]) -> NameMap:
    """Return the names below ``backbone``; ours are those of the package ``transformers``.

    Args:
        depths: blocks of the stages.
    """
    ours = "encoder.backbone.swin."
    modules = {
        "backbone.patch_embed.proj": f"{ours}embeddings.patch_embeddings.projection",
        "backbone.patch_embed.norm": f"{ours}embeddings.norm",
    }
    splits, tensors = {}, {}
    for i, depth in enumerate(depths):
        stage, to_stage = f"backbone.layers.{i}.", f"{ours}encoder.layers.{i}."
        modules[f"backbone.norm{i}"] = f"encoder.backbone.hidden_states_norms.stage{i + 1}"
        if i < len(depths) - 1:
            modules |= under(stage, to_stage, [(f"downsample.{name}",) * 2 for name in ("reduction", "norm")])
        for j in range(depth):
            block, to_block = f"{stage}blocks.{j}.", f"{to_stage}blocks.{j}."
            modules |= under(block, to_block, _BLOCK)
            splits[f"{block}attn.qkv"] = tuple(f"{to_block}attention.{name}_proj" for name in "qkv")
            table = "relative_position_bias_table"
            tensors[f"{block}attn.{table}"] = f"{to_block}attention.relative_position_bias.{table}"
    return NameMap(modules, splits, tensors, skips=CONSTANTS)


def field_names(published: str, ours: str) -> NameMap:
    """Return the names of one field of two blocks (``crf3``)."""
    modules = under(published, ours, ((".proj_x", ".proj_x"), (".proj_v", ".proj_v"), (".norm_crf", ".norm")))
    tensors = {}
    for j in range(2):
        block, to_block = f"{published}.crf_layer.blocks.{j}.", f"{ours}.blocks.{j}."
        modules |= under(block, to_block, _FIELD_BLOCK)
        tensors[f"{block}attn.relative_position_bias_table"] = f"{to_block}attention.bias_table"
    return NameMap(modules, tensors=tensors)
