"""Names and shapes of the tensors that the authors' code saves, written from their architectures (facts only)."""

import torch

Shapes = dict[str, tuple[int, ...]]
#: EfficientNet-B5: blocks, kernel, widening, channels of the seven stages.
B5 = ((3, 3, 1, 24), (5, 3, 6, 40), (5, 5, 6, 64), (7, 3, 6, 128), (7, 5, 6, 176), (9, 5, 6, 304), (3, 3, 6, 512))


def meta(shapes: Shapes) -> dict[str, torch.Tensor]:
    """Tensors without memory."""
    return {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}


def filled(shapes: Shapes) -> dict[str, torch.Tensor]:
    """Seeded tensors; what a norm divides by is above 0."""
    generator = torch.Generator().manual_seed(0)
    made = {name: torch.randn(shape, generator=generator) * 0.05 for name, shape in shapes.items()}
    return {name: tensor.abs() + 0.5 if name.endswith("running_var") else tensor for name, tensor in made.items()}


def _conv(name: str, out: int, inputs: int, *kernel: int, bias: bool = True) -> Shapes:
    rows, columns = (kernel * 2)[:2]
    return {f"{name}.weight": (out, inputs, rows, columns), **({f"{name}.bias": (out,)} if bias else {})}


def _linear(name: str, out: int, inputs: int, *, bias: bool = True) -> Shapes:
    return {f"{name}.weight": (out, inputs), **({f"{name}.bias": (out,)} if bias else {})}


def _norm(name: str, channels: int) -> Shapes:
    return {f"{name}.weight": (channels,), f"{name}.bias": (channels,)}


def _batch_norm(name: str, channels: int) -> Shapes:
    running = {f"{name}.{part}": (channels,) for part in ("running_mean", "running_var")}
    return {**_norm(name, channels), **running, f"{name}.num_batches_tracked": ()}


def adabins() -> Shapes:
    """UnetAdaptiveBins with 256 bins on tf_efficientnet_b5_ap without classifier."""
    shapes = _b5("encoder.original_model.")
    layer = "adaptive_bins_layer."
    encoder = f"{layer}patch_transformer."
    for i in range(4):
        block = f"{encoder}transformer_encoder.layers.{i}."
        shapes |= {f"{block}self_attn.in_proj_weight": (384, 128), f"{block}self_attn.in_proj_bias": (384,)}
        shapes |= _linear(f"{block}self_attn.out_proj", 128, 128)
        shapes |= _linear(f"{block}linear1", 1024, 128) | _linear(f"{block}linear2", 128, 1024)
        shapes |= _norm(f"{block}norm1", 128) | _norm(f"{block}norm2", 128)
    shapes |= _conv(f"{encoder}embedding_convPxP", 128, 128, 16) | {f"{encoder}positional_encodings": (500, 128)}
    shapes |= _conv(f"{layer}conv3x3", 128, 128, 3)
    shapes |= _linear(f"{layer}regressor.0", 256, 128) | _linear(f"{layer}regressor.2", 256, 256)
    shapes |= _linear(f"{layer}regressor.4", 256, 256)
    shapes |= _conv("decoder.conv2", 2048, 2048, 1) | _conv("decoder.conv3", 128, 128, 3)
    widths = (2048, 1024, 512, 256, 128)
    for i, skip in enumerate((176, 64, 40, 24)):
        net, out = f"decoder.up{i + 1}._net.", widths[i + 1]
        shapes |= _conv(f"{net}0", out, widths[i] + skip, 3) | _batch_norm(f"{net}1", out)
        shapes |= _conv(f"{net}3", out, out, 3) | _batch_norm(f"{net}4", out)
    return shapes | _conv("conv_out.0", 256, 128, 1)


def _b5(prefix: str) -> Shapes:
    shapes = _conv(f"{prefix}conv_stem", 48, 3, 3, bias=False) | _batch_norm(f"{prefix}bn1", 48)
    inputs = 48
    for stage, (count, kernel, widening, channels) in enumerate(B5):
        for i in range(count):
            block, wide, squeezed = f"{prefix}blocks.{stage}.{i}.", inputs * widening, inputs // 4
            depthwise = _conv(f"{block}conv_dw", wide, 1, kernel, bias=False)
            squeeze = _conv(f"{block}se.conv_reduce", squeezed, wide, 1) | _conv(
                f"{block}se.conv_expand", wide, squeezed, 1
            )
            if widening == 1:
                shapes |= depthwise | _batch_norm(f"{block}bn1", wide) | squeeze
                shapes |= _conv(f"{block}conv_pw", channels, wide, 1, bias=False) | _batch_norm(f"{block}bn2", channels)
            else:
                shapes |= _conv(f"{block}conv_pw", wide, inputs, 1, bias=False) | _batch_norm(f"{block}bn1", wide)
                shapes |= depthwise | _batch_norm(f"{block}bn2", wide) | squeeze
                shapes |= _conv(f"{block}conv_pwl", channels, wide, 1, bias=False)
                shapes |= _batch_norm(f"{block}bn3", channels)
            inputs = channels
    return shapes | _conv(f"{prefix}conv_head", 2048, 512, 1, bias=False) | _batch_norm(f"{prefix}bn2", 2048)


def swin(dim: int, depths: tuple[int, ...], num_heads: tuple[int, ...], window: int) -> Shapes:
    """The backbone of both Swin networks."""
    shapes = _conv("backbone.patch_embed.proj", dim, 3, 4) | _norm("backbone.patch_embed.norm", dim)
    for i, (depth, heads) in enumerate(zip(depths, num_heads, strict=True)):
        stage, width = f"backbone.layers.{i}.", dim * 2**i
        for j in range(depth):
            block = f"{stage}blocks.{j}."
            shapes |= _norm(f"{block}norm1", width) | _window(f"{block}attn.", heads, window)
            shapes |= _linear(f"{block}attn.qkv", 3 * width, width) | _linear(f"{block}attn.proj", width, width)
            shapes |= _norm(f"{block}norm2", width) | _mlp(f"{block}mlp.", width)
        if i < 3:
            shapes |= _linear(f"{stage}downsample.reduction", 2 * width, 4 * width, bias=False)
            shapes |= _norm(f"{stage}downsample.norm", 4 * width)
        shapes |= _norm(f"backbone.norm{i}", width)
    return shapes


def _window(prefix: str, heads: int, window: int) -> Shapes:
    table = ((2 * window - 1) ** 2, heads)
    return {f"{prefix}relative_position_bias_table": table, f"{prefix}relative_position_index": (window**2, window**2)}


def _mlp(prefix: str, width: int) -> Shapes:
    return _linear(f"{prefix}fc1", 4 * width, width) | _linear(f"{prefix}fc2", width, 4 * width)


def _field(name: str, features: int, prediction: int, dim: int, heads: int) -> Shapes:
    shapes = {} if features == dim else _conv(f"{name}.proj_x", dim, features, 3)
    shapes |= {} if prediction == dim else _conv(f"{name}.proj_v", dim, prediction, 3)
    for j in range(2):
        block = f"{name}.crf_layer.blocks.{j}."
        shapes |= _norm(f"{block}norm1", dim) | _window(f"{block}attn.", heads, 7)
        shapes |= _linear(f"{block}attn.qk", 2 * dim, dim) | _linear(f"{block}attn.proj", dim, dim)
        shapes |= _norm(f"{block}norm2", dim) | _mlp(f"{block}mlp.", dim)
    return shapes | _norm(f"{name}.norm_crf", dim)


def newcrfs(dim: int, depths: tuple[int, ...], num_heads: tuple[int, ...], window: int) -> Shapes:
    """NewCRFDepth."""
    shapes = swin(dim, depths, num_heads, window)
    for level, prediction, width, heads in ((3, 512, 1024, 32), (2, 256, 512, 16), (1, 128, 256, 8), (0, 64, 128, 4)):
        shapes |= _field(f"crf{level}", dim * 2**level, prediction, width, heads)
    for i in range(4):
        branch = f"decoder.psp_modules.{i}.1."
        shapes |= _conv(f"{branch}conv", 512, 8 * dim, 1, bias=False) | _norm(f"{branch}gn", 512)
    shapes |= _conv("decoder.bottleneck.conv", 512, 8 * dim + 2048, 3, bias=False)
    return shapes | _batch_norm("decoder.bottleneck.bn", 512) | _conv("disp_head1.conv1", 1, 128, 3)


def dcdepth(dim: int, depths: tuple[int, ...], num_heads: tuple[int, ...], window: int) -> Shapes:
    """DCDepth, with what its training wrapper saves beside it."""
    shapes = swin(dim, depths, num_heads, window)
    for level, prediction, width, heads in ((3, 512, 1024, 32), (2, 256, 512, 16), (1, 128, 192, 8)):
        shapes |= _field(f"crf{level}", dim * 2**level, prediction, width, heads)
    for i, factor in enumerate((8, 4, 2)):
        shapes |= _downsample(f"decoder.downs.{i}.", factor, factor**2 // 4 * dim * 2**i, dim * 2**i, 512)
    joined = 3 * 512 + 8 * dim
    shapes |= _linear("decoder.fuse.0.attention.0", joined // 16, joined)
    shapes |= _linear("decoder.fuse.0.attention.2", joined, joined // 16)
    shapes |= _conv("decoder.fuse.1", 512, joined, 1) | _conv("decoder.fuse.2", 512, 1, 7, bias=False)
    shapes |= _batch_norm("decoder.fuse.3", 512)
    shapes |= _downsample("project_context.", 2, 2 * dim, dim, dim) | _conv("project_hidden", 192, 192 + dim, 3)
    return shapes | _update() | {"update.freq_reg._weight": (64,)}


def _downsample(name: str, factor: int, thinned: int, channels: int, out: int) -> Shapes:
    shapes: Shapes = {f"{name}dct._dct_mtx": (factor, factor)}
    shapes |= {f"{name}conv1.weight": (thinned, factor**2, 1, 1), f"{name}conv1.bias": (thinned,)}
    return (
        shapes
        | _conv(f"{name}conv2.0", out, thinned, 1)
        | _conv(f"{name}conv2.1", out, 1, 5, bias=False)
        | (_batch_norm(f"{name}conv2.2", out))
    )


def _update() -> Shapes:
    counts = (1, 3, 6, 10, 15, 21, 36, 64)
    shapes: Shapes = {"update.dct._dct_mtx": (8, 8)}
    for i, count in enumerate(counts):
        shapes |= {f"update._indices_{i}": (1, count, 1, 1), f"update._cum_indices_{i + 1}": (1, count, 1, 1)}
    feed = "update.in_proj."
    shapes |= _conv(f"{feed}depth_in.0.0", 64, 1, 7) | _conv(f"{feed}depth_in.1.0", 128, 64, 3)
    shapes |= _conv(f"{feed}depth_in.2", 128, 128, 3)
    tokens = f"{feed}depth_freq_in."
    shapes |= {f"{tokens}cls_token": (1, 1, 128), f"{tokens}pos_embed": (1, 64, 128)}
    shapes |= _conv(f"{tokens}tokenize.0.0", 64, 1, 7) | _conv(f"{tokens}tokenize.1.0", 128, 64, 3)
    shapes |= _conv(f"{tokens}tokenize.2", 128, 128, 3) | _norm(f"{tokens}norm", 128)
    shapes |= _linear(f"{tokens}attn.q", 128, 128) | _linear(f"{tokens}attn.kv", 256, 128)
    shapes |= _linear(f"{tokens}attn.proj", 128, 128)
    shapes |= _linear(f"{feed}fuse.0.attention.0", 32, 256) | _linear(f"{feed}fuse.0.attention.2", 256, 32)
    shapes |= _conv(f"{feed}fuse.1.0", 256, 1, 7) | _conv(f"{feed}fuse.1.1", 192, 256, 1)
    for letter in "zrq":
        shapes |= _conv(f"update.gru.conv{letter}1", 192, 384, 1, 5) | _conv(
            f"update.gru.conv{letter}2", 192, 384, 5, 1
        )
    heads = "update.heads."
    for i, count in enumerate((*counts, 64)):
        shapes |= {f"{heads}idx_embed.{i}": (1, 192, 1, 1)} | _conv(f"{heads}convs.{i}", count, 192, 3)
    for i in range(4):
        shapes |= _conv(f"{heads}ppm.pool_convs.{i}", 192, 192, 1)
    return shapes | _conv(f"{heads}ppm.squeeze.0.0", 960, 1, 7) | _conv(f"{heads}ppm.squeeze.0.1", 192, 960, 1)
