"""Published checkpoints: every key is taken, split, folded or skipped for a reason, and nothing of ours is missing."""

from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn
from typer.testing import CliRunner

from fed_cli.main import app, load_verbs
from fed_core.errors import ConfigError, DataError
from fed_core.wire.codec import open_tensors
from fed_models import build, networks
from fed_models.checkpoints import PUBLISHED, published_names
from fed_models.checkpoints.convert import Action, convert
from fed_models.checkpoints.files import import_checkpoint, read_checkpoint
from fed_models.checkpoints.names import NameMap
from tests.models import published

load_verbs()

TINY = (96, (2, 2, 6, 2), (3, 6, 12, 24))
BASE = (128, (2, 2, 18, 2), (4, 8, 16, 32))
LARGE = (192, (2, 2, 18, 2), (6, 12, 24, 48))
#: Network, its options, the published state, its keys split in three, folded, and skipped.
CASES = [
    ("adabins_b5", {}, published.adabins(), 0, 8, 5),
    ("newcrfs_tiny", {}, published.newcrfs(*TINY, 7), 24, 0, 12 + 8),
    ("newcrfs_base", {}, published.newcrfs(*BASE, 7), 48, 0, 24 + 8),
    ("newcrfs_large", {"window": 12}, published.newcrfs(*LARGE, 12), 48, 0, 24 + 8),
    ("dcdepth_tiny", {}, published.dcdepth(*TINY, 7), 24, 0, 12 + 6 + 16 + 5 + 1),
    ("dcdepth_large", {}, published.dcdepth(*LARGE, 12), 48, 0, 24 + 6 + 16 + 5 + 1),
]


def wanted(name: str, options: dict[str, object]) -> dict[str, torch.Tensor]:
    with torch.device("meta"):
        return build(name, options).state_dict()


@pytest.mark.parametrize(("name", "options", "shapes", "split", "folded", "skipped"), CASES)
def test_every_key_is_accounted_for(
    name: str, options: dict[str, object], shapes: published.Shapes, split: int, folded: int, skipped: int
) -> None:
    ours = wanted(name, options)

    result = convert(published.meta(shapes), published_names(name), ours)

    assert result.missing == ()
    assert [key.source for key in result.keys] == list(shapes)
    assert {n: t.shape for n, t in result.tensors.items()} == {n: t.shape for n, t in ours.items()}
    counts = result.counts()
    assert (counts["split"], counts["folded"], counts["skipped"]) == (split, folded, skipped)
    # The account adds up: one tensor from each key taken or renamed, three from each split one.
    assert counts["taken"] + counts["renamed"] + 3 * split == len(ours)
    assert all(key.note for key in result.keys if key.action is Action.SKIPPED)
    assert not any("counterpart" in key.note or "shape" in key.note for key in result.keys)


def test_wrappers_in_front_of_the_names_do_not_matter() -> None:
    shapes = {f"module.{name}": shape for name, shape in published.newcrfs(*TINY, 7).items()}

    assert convert(published.meta(shapes), published_names("newcrfs_tiny"), wanted("newcrfs_tiny", {})).missing == ()


def test_older_names_of_adabins_are_known() -> None:
    old = {"embedding_convPxP": "embedding_encoder", "conv3x3": "embedding_conv"}
    shapes = published.adabins()
    for new, former in old.items():
        shapes = {name.replace(new, former): shape for name, shape in shapes.items()}

    assert convert(published.meta(shapes), published_names("adabins_b5"), wanted("adabins_b5", {})).missing == ()


def test_all_published_networks_are_registered() -> None:
    assert set(PUBLISHED) <= set(networks.names())
    assert set(PUBLISHED) == {case[0] for case in CASES}
    with pytest.raises(
        ConfigError, match="no published weights of network 'adabins_s' are known; choose one of adabins"
    ):
        published_names("adabins_s")


def test_rows_are_split_in_order() -> None:
    names = NameMap(splits={"attn.qkv": ("q", "k", "v")})
    ours = {f"{n}.weight": torch.empty(2, 1) for n in "qkv"}

    result = convert({"attn.qkv.weight": torch.arange(6.0).view(6, 1)}, names, ours)

    assert [t.flatten().tolist() for t in result.tensors.values()] == [[0, 1], [2, 3], [4, 5]]
    assert str(result.keys[0]) == "split  attn.qkv.weight  -> q.weight k.weight v.weight"


def test_what_does_not_fit_is_told() -> None:
    names = NameMap(modules={"a": "x", "b": "x"}, splits={"c": ("p", "q")}, skips={"index": "constant"})
    ours = {"x.weight": torch.empty(2), "x.bias": torch.empty(2), "p.weight": torch.empty(1)}
    source = {
        "a.weight": torch.ones(2),
        "b.weight": torch.zeros(2),
        "a.bias": torch.ones(3),
        "c.weight": torch.ones(3),
        "d.weight": torch.ones(1),
        "e.index": torch.ones(1),
    }

    result = convert(source, names, ours)

    assert [str(key) for key in result.keys] == [
        "renamed  a.weight  -> x.weight",
        "skipped  b.weight  -> x.weight  another key gave this tensor before",
        "skipped  a.bias  -> x.bias  shape [3], the network needs [2]",
        "skipped  c.weight  -> p.weight q.weight  shape [3] cannot be split",
        "skipped  d.weight  the network has no counterpart",
        "skipped  e.index  constant",
        "missing  x.bias",
        "missing  p.weight",
    ]
    assert result.tensors["x.weight"].tolist() == [1.0, 1.0]


def test_a_folded_bias_gives_the_same_map() -> None:
    torch.manual_seed(0)
    theirs = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)).eval()
    nn.init.normal_(theirs[1].running_mean)
    ours = nn.Sequential(nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3)).eval()
    names = NameMap(modules={"0": "0", "1": "1"}, folds={"0.bias": "1.running_mean"})
    before = {name: tensor.clone() for name, tensor in theirs.state_dict().items()}

    ours.load_state_dict(dict(convert(theirs.state_dict(), names, ours.state_dict()).tensors))

    x = torch.randn(1, 2, 5, 5)
    torch.testing.assert_close(ours(x), theirs(x))
    assert all(torch.equal(tensor, before[name]) for name, tensor in theirs.state_dict().items())


def test_half_precision_becomes_that_of_the_network() -> None:
    result = convert({"a.w": torch.ones(2).half()}, NameMap(modules={"a": "a"}), {"a.w": torch.empty(2)})

    assert result.tensors["a.w"].dtype == torch.float32


@pytest.mark.parametrize("nested", [None, "model", "state_dict"])
def test_checkpoints_are_read_wherever_the_state_lies(nested: str | None, tmp_path: Path) -> None:
    state = {"a.weight": torch.arange(3.0)}
    torch.save({nested: state, "epoch": 3} if nested else state, tmp_path / "c.pth")

    assert read_checkpoint(tmp_path / "c.pth")["a.weight"].tolist() == [0.0, 1.0, 2.0]


def test_safetensors_are_read_as_well(tmp_path: Path) -> None:
    safetensors.torch.save_file({"a.weight": torch.arange(3.0)}, tmp_path / "c.safetensors")

    assert read_checkpoint(tmp_path / "c.safetensors")["a.weight"].tolist() == [0.0, 1.0, 2.0]


class Hostile:
    """An object that would run code when it is unpickled the ordinary way."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return eval, ("1 / 0",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (Hostile(), "holds more than tensors, which is not read for safety; save its state dict alone"),
        ({"epoch": 3}, "holds no tensors by name; expected a state dict, alone or under model, state_dict, net"),
        ([1, 2], "holds no tensors by name"),
    ],
)
def test_files_that_hold_something_else_are_refused(content: object, words: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "c.pth")

    with pytest.raises(DataError) as refused:
        read_checkpoint(tmp_path / "c.pth")
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_files_that_are_no_checkpoints_are_refused(tmp_path: Path) -> None:
    (tmp_path / "c.pth").write_text("hello")

    with pytest.raises(DataError) as refused:
        read_checkpoint(tmp_path / "c.pth")
    assert str(refused.value).startswith(str(tmp_path / "c.pth")) and "\n" not in str(refused.value)
    with pytest.raises(DataError, match="there is no checkpoint .*none.pth"):
        read_checkpoint(tmp_path / "none.pth")


def test_a_checkpoint_with_gaps_writes_the_account_only(tmp_path: Path) -> None:
    torch.save({"disp_head1.conv1.bias": torch.zeros(1)}, tmp_path / "c.pth")
    out = tmp_path / "out" / "weights.safetensors"

    with pytest.raises(DataError, match=r"c.pth lacks 37\d of 37\d tensors of newcrfs_tiny, first 'encoder.backbone"):
        import_checkpoint("newcrfs_tiny", {}, tmp_path / "c.pth", out)

    assert not out.exists()
    account = (tmp_path / "out" / "weights.safetensors.txt").read_text()
    assert account.startswith("renamed  disp_head1.conv1.bias  -> head.bias\nmissing  encoder.backbone")


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["import-checkpoint", *map(str, arguments)])
    return result.exit_code, result.output


def test_the_command_refuses_bad_input_in_one_line(tmp_path: Path) -> None:
    paths = ("--checkpoint", tmp_path / "c.pth", "--out", tmp_path / "o.safetensors")

    code, text = run("--network", "adabins_s", *paths)
    assert (code, text.count("\n")) == (2, 1) and text.startswith("error: no published weights of network 'adabins_s'")
    code, text = run("--network", "newcrfs_tiny", *paths, "--set", "window")
    assert (code, text) == (2, "error: --set needs NAME=VALUE, got 'window'\n")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_imported_checkpoint_is_what_the_network_starts_from(tmp_path: Path) -> None:
    state = published.filled(published.dcdepth(*TINY, 7))
    torch.save({"state_dict": {f"model.{name}": tensor for name, tensor in state.items()}}, tmp_path / "c.ckpt")
    out = tmp_path / "weights.safetensors"

    code, text = run("--network", "dcdepth_tiny", "--checkpoint", tmp_path / "c.ckpt", "--out", out)

    assert code == 0, text
    assert "24 split" in text and "0 missing" in text
    assert open_tensors(out).metadata == {"network": "dcdepth_tiny"}
    network = build("dcdepth_tiny", {"height": 64, "width": 96, "weights": str(out)})
    torch.testing.assert_close(network.state_dict()["state.weight"], state["project_hidden.weight"])
    key = network.state_dict()["encoder.backbone.swin.encoder.layers.2.blocks.5.attention.k_proj.weight"]
    torch.testing.assert_close(key, state["backbone.layers.2.blocks.5.attn.qkv.weight"][384:768])
