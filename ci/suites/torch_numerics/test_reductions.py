"""Sums, norms and softmax against float64."""

import pytest
import torch


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_mean(dim, random, backend, close):
    x = random(64, 128, 16)
    close(backend(lambda y: y.mean(dim))(x), x.double().mean(dim))


@pytest.mark.parametrize("size", [1, 31, 4096])
def test_softmax_sums_to_one(size, random, backend, close):
    x = random(16, size) * 8
    y = backend(lambda z: torch.softmax(z, -1))(x)
    close(y, torch.softmax(x.double(), -1))
    close(y.double().sum(-1), torch.ones(16), size)


def test_layer_norm(random, backend, close):
    x = random(32, 512)
    y = backend(lambda z: torch.nn.functional.layer_norm(z, (512,)))(x)
    close(y, torch.nn.functional.layer_norm(x.double(), (512,)), 4)


def test_extremes_are_exact(random):
    x = random(1000)
    assert x.max().item() == max(x.tolist())
    assert x.argmin().item() == x.tolist().index(min(x.tolist()))
