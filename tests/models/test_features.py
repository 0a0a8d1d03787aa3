import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fed_core.errors import ConfigError, DataError
from fed_core.similarity.gem import gem
from fed_core.similarity.subspace import check
from fed_models import features
from fed_models.features import FrozenEncoder, default_encoder, gem_pool


def images(count: int, seed: int = 0, size: tuple[int, int] = (48, 64)) -> list[npt.NDArray[np.uint8]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 256, (*size, 3), np.uint8) for _ in range(count)]


@pytest.fixture(scope="module")
def encoder() -> FrozenEncoder:
    return FrozenEncoder.random(0)


@given(seed=st.integers(0, 2**32 - 1), p=st.sampled_from([1.0, 2.0, 3.0, 5.5]), scale=st.sampled_from([1e-3, 1.0, 1e4]))
@settings(max_examples=40)
def test_pooling_equals_the_numpy_reference(seed: int, p: float, scale: float) -> None:
    maps = (np.random.default_rng(seed).normal(size=(2, 3, 4, 5)) * scale).astype(np.float32)

    np.testing.assert_allclose(gem_pool(torch.from_numpy(maps), p).numpy(), gem(maps, p), rtol=2e-5)


def test_pooling_by_hand() -> None:
    maps = torch.tensor([1.0, 2.0, -3.0, 0.0]).view(1, 1, 2, 2)

    # p = 1 is the mean of the clamped map, a large p its maximum, p = 3 the cube root of (1 + 8) / 4.
    assert gem_pool(maps, 1.0).item() == pytest.approx(0.75, rel=1e-5)
    assert gem_pool(maps, 500.0).item() == pytest.approx(2.0, rel=5e-3)
    assert gem_pool(maps, 3.0).item() == pytest.approx(2.25 ** (1 / 3), rel=1e-5)
    assert gem_pool(torch.full((1, 2, 3, 3), 7.0)).tolist() == [[7.0, 7.0]]
    assert gem_pool(torch.full((1, 1, 2, 2), -4.0)).item() == pytest.approx(1e-6)


def test_pooled_rows_are_those_of_the_feature_maps(encoder: FrozenEncoder) -> None:
    sample = images(3)

    pooled = encoder.gem(sample)

    assert pooled.shape == (3, 1280) and pooled.dtype == np.float32
    maps = torch.stack(list(encoder.features(sample))).numpy()
    assert maps.shape == (3, 1280, 4, 5)
    np.testing.assert_allclose(pooled, gem(maps), rtol=1e-3, atol=1e-6)


def test_a_descriptor_is_the_mean_and_unbiased_variance_of_the_rows(encoder: FrozenEncoder) -> None:
    sample = images(11)  # more than one batch
    pooled = encoder.gem(sample).astype(np.float64)

    told = encoder.describe(iter(sample))

    assert (told.kind, told.num_frames, told.encoder) == ("gaussian", 11, encoder.digest)
    np.testing.assert_allclose(told.tensors["mean"], pooled.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(told.tensors["variance"], pooled.var(axis=0, ddof=1), rtol=1e-4, atol=1e-12)
    assert told.tensors["mean"].dtype == told.tensors["variance"].dtype == np.float32


def test_a_frame_pools_alike_in_every_batch_and_at_every_resolution_of_a_flat_image(encoder: FrozenEncoder) -> None:
    sample = images(9)

    np.testing.assert_allclose(encoder.gem(sample)[8], encoder.gem(sample[8:])[0], rtol=1e-4, atol=1e-6)
    flat = [np.full((h, w, 3), 90, np.uint8) for h, w in ((120, 160), (480, 640), (33, 57))]
    rows = encoder.gem(flat)
    np.testing.assert_allclose(rows[1:], np.stack([rows[0], rows[0]]), rtol=1e-4, atol=1e-6)


def test_a_subspace_is_spanned_by_the_rows() -> None:
    encoder = default_encoder()
    told = encoder.describe(images(5), "subspace")

    check(told, encoder=encoder.digest, num_features=1280)
    rows = encoder.gem(images(5)).astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    basis = np.stack(list(told.tensors.values()))
    assert len(basis) == 3
    values = np.linalg.svd(rows, compute_uv=False)
    np.testing.assert_allclose(np.linalg.norm(rows @ basis.T, axis=0), values[: len(basis)], rtol=1e-3)


def test_constant_images_have_no_variance_and_one_direction() -> None:
    encoder = default_encoder()
    same = [np.full((60, 80, 3), 90, np.uint8)] * 13  # batches of two sizes

    assert encoder.describe(same).tensors["variance"].max() < 1e-8
    assert list(encoder.describe(same, "subspace").tensors) == ["direction0"]


def test_an_unknown_kind_is_named(encoder: FrozenEncoder) -> None:
    with pytest.raises(ConfigError, match="no descriptor is called 'smell'"):
        encoder.describe(images(2), "smell")


def test_fewer_than_two_images_are_refused(encoder: FrozenEncoder) -> None:
    with pytest.raises(DataError, match="a descriptor needs at least 2 images, got 1; one image has no variance"):
        encoder.describe(images(1))
    with pytest.raises(DataError, match="no images to describe; the sequence is empty"):
        encoder.describe([])


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (np.zeros((4, 4), np.uint8), r"an image is uint8 \(4, 4\); descriptors need \(H, W, 3\) uint8 in RGB order"),
        (np.zeros((4, 4, 3), np.float32), r"an image is float32 \(4, 4, 3\)"),
        (np.zeros((4, 4, 4), np.uint8), r"an image is uint8 \(4, 4, 4\)"),
        (np.zeros((0, 4, 3), np.uint8), r"an image is uint8 \(0, 4, 3\)"),
    ],
)
def test_arrays_that_are_no_rgb_images_are_refused(
    encoder: FrozenEncoder, image: npt.NDArray[np.generic], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        encoder.gem([image])


def test_the_digest_covers_weights_source_pooling_and_preprocessing(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = {FrozenEncoder.random(0).digest, FrozenEncoder.random(1).digest}
    same = FrozenEncoder.random(0)
    assert same.digest in digests and len(digests) == 2 and len(same.digest) == 64

    with torch.no_grad():
        next(same._network.parameters()).view(-1)[0] += 1e-3
    digests.add(FrozenEncoder(same._network, same.source).digest)
    for name, value in (("GEM_P", 2.0), ("GEM_EPS", 1e-5), ("INPUT_SIZE", (96, 160)), ("LAYER", "other")):
        with monkeypatch.context() as patch:
            patch.setattr(features, name, value)
            digests.add(FrozenEncoder.random(0).digest)
    assert len(digests) == 7


def test_the_encoder_is_frozen_and_leaves_the_generator_alone() -> None:
    before = torch.random.get_rng_state()
    encoder = FrozenEncoder.random(5)
    digest = encoder.digest

    encoder.describe(images(3))

    assert torch.equal(before, torch.random.get_rng_state())
    assert not encoder._network.training and not any(p.requires_grad for p in encoder._network.parameters())
    assert FrozenEncoder(encoder._network, encoder.source).digest == digest
