"""Units of masks on the signatures of real networks (fedcka spec 4, 11.3)."""

import math
from functools import cache
from pathlib import Path

import pytest
import torch

from fed_core.masks import DIVISIONS, Division, divide
from fed_core.types import ModelSignature
from fed_models import build, signature
from tests.models.mmdet3d_configs import write_config

kinds = pytest.mark.parametrize("kind", DIVISIONS)


@cache
def cmt(name: str) -> ModelSignature:
    with torch.random.fork_rng(devices=[]):
        return signature(build(name, {}), name)


def check_partition(described: ModelSignature, division: Division) -> None:
    """Every floating entry is in one unit, or told as unscored; every unit has a layer that a hook can be put on."""
    floating = {spec.name: math.prod(spec.shape) for spec in described.tensors if spec.is_floating}
    inside = [name for unit in division.units for name in unit]
    assert sorted([*inside, *division.unscored]) == sorted(floating)
    assert division.sizes.tolist() == [sum(floating[name] for name in unit) for unit in division.units]
    assert division.entries + division.rest == sum(floating.values())
    assert {unit for layer in division.layers for unit in layer.units} == set(range(len(division.units)))
    assert {layer.name for layer in division.layers} <= {"", *described.modules}
    assert len(set(division.names)) == len(division.names)


@kinds
@pytest.mark.parametrize("name", ["cmt_lite", "cmt_tiny"])
def test_units_of_cmt_partition_its_entries(name: str, kind: str) -> None:
    check_partition(cmt(name), divide(cmt(name), kind))


@pytest.mark.parametrize("name", ["cmt_lite", "cmt_tiny"])
def test_owners_of_cmt_are_its_modules_with_parameters_and_attention_is_one(name: str) -> None:
    described = cmt(name)
    division = divide(described)
    owners = {spec.owner for spec in described.tensors if spec.trainable}
    projections = {owner for owner in owners if owner.endswith("attention.out_proj")}
    assert set(division.names) == owners - projections and len(projections) == 4
    assert [(layer.name, layer.units) for layer in division.layers] == [(n, (i,)) for i, n in enumerate(division.names)]


@pytest.mark.parametrize(("name", "entries"), [("cmt_lite", 714_244), ("cmt_tiny", 306_530)])
def test_units_layers_and_entries_of_cmt(name: str, entries: int) -> None:
    """Blocks join 32 norms to the layer before; released units part attention from its 4 projections."""
    owner, block, released = (divide(cmt(name), kind) for kind in ("owner", "block", "released"))
    assert [division.entries for division in (owner, block, released)] == [entries] * 3
    assert [len(division.units) for division in (owner, block, released)] == [99, 67, 103]
    assert [len(division.layers) for division in (owner, block, released)] == [99, 67, 115]


@kinds
def test_units_of_point_pillars_partition_its_entries(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("mmdet3d", reason="mmdet3d is not installed; run: make setup-detection (docs/mmdet3d.md)")
    described = signature(build("mmdet3d", {"config": write_config(tmp_path)}), "mmdet3d")
    check_partition(described, divide(described, kind))
