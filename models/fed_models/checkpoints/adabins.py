"""Published names of AdaBins (github.com/shariqfarooq123/AdaBins), whose encoder has the names of gen-efficientnet."""

from fed_models.blocks.efficientnet_b5 import REPEATS
from fed_models.checkpoints.names import NameMap, under

#: Inside a block: with widening, and (first stage) without.
_WIDENED = (
    ("conv_pw", "_expand_conv"),
    ("bn1", "_bn0"),
    ("conv_dw", "_depthwise_conv"),
    ("bn2", "_bn1"),
    ("se.conv_reduce", "_se_reduce"),
    ("se.conv_expand", "_se_expand"),
    ("conv_pwl", "_project_conv"),
    ("bn3", "_bn2"),
)
_PLAIN = (
    ("conv_dw", "_depthwise_conv"),
    ("bn1", "_bn1"),
    ("se.conv_reduce", "_se_reduce"),
    ("se.conv_expand", "_se_expand"),
    ("conv_pw", "_project_conv"),
    ("bn2", "_bn2"),
)
_NOT_USED = "not used: AdaBins takes the head convolution before its normalisation"


def published_names() -> NameMap:
    """Return the names of the network on EfficientNet-B5."""
    names = _encoder() | _decoder()
    vit = "adaptive_bins_layer.patch_transformer."
    modules = {
        f"{vit}embedding_convPxP": "vit.patches",
        f"{vit}embedding_encoder": "vit.patches",  # older files
        "adaptive_bins_layer.conv3x3": "keys",
        "adaptive_bins_layer.embedding_conv": "keys",  # older files
        "conv_out.0": "bin_scores",
    }
    modules |= under("adaptive_bins_layer.regressor.", "bin_widths.", [(i, i) for i in "024"])
    parts = ("self_attn", "self_attn.out_proj", "linear1", "linear2", "norm1", "norm2")
    for i in range(4):
        modules |= under(f"{vit}transformer_encoder.layers.{i}.", f"vit.layers.{i}.", [(part, part) for part in parts])
    return names | NameMap(modules, tensors={f"{vit}positional_encodings": "vit.positions"})


def _encoder() -> NameMap:
    published, ours = "encoder.original_model.", "encoder.network."
    modules = under(published, ours, (("conv_stem", "_conv_stem"), ("bn1", "_bn0"), ("conv_head", "_conv_head")))
    place = 0
    for stage, repeats in enumerate(REPEATS):
        for i in range(repeats):
            block, to_block = f"{published}blocks.{stage}.{i}.", f"{ours}_blocks.{place}."
            modules |= under(block, to_block, _WIDENED if stage else _PLAIN)
            place += 1
    leaves = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    skips = {f"{published}bn2.{leaf}": _NOT_USED for leaf in leaves}
    skips |= {f"{published}classifier.{leaf}": "not used: the classifier" for leaf in leaves[:2]}
    return NameMap(modules, skips=skips)


def _decoder() -> NameMap:
    modules = {"decoder.conv2": "decoder.bottleneck", "decoder.conv3": "decoder.out"}
    folds: dict[str, str] = {}
    for i in range(4):
        block, to_block = f"decoder.up{i + 1}._net.", f"decoder.ups.{i}.convs."
        modules |= under(block, to_block, [(j, j) for j in "0134"])
        # Published convolutions have a bias that the norm behind takes out again; ours have none.
        folds |= {f"{block}{j}.bias": f"{to_block}{j + 1}.running_mean" for j in (0, 3)}
    return NameMap(modules, folds=folds)
