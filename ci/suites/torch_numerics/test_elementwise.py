"""Functions of one value against float64, and the values that numerics trip over."""

import pytest
import torch

FUNCTIONS = ["exp", "tanh", "sigmoid", "sin", "erf"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name, random, backend, close):
    x = random(10_000).clamp(-4, 4)
    function = getattr(torch, name)
    close(backend(function)(x), function(x.double()), 4)


@pytest.mark.parametrize("name", ["gelu", "silu", "relu"])
def test_activation(name, random, backend, close):
    x = random(10_000)
    function = getattr(torch.nn.functional, name)
    close(backend(function)(x), function(x.double()), 4)


def test_special_values(device, dtype):
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0], device=device, dtype=dtype)
    assert torch.isnan(x).tolist() == [True, False, False, False, False]
    assert (1 / x[3:]).tolist() == [float("inf"), -float("inf")]
    assert torch.isnan(x[1] + x[2])


def test_cast_to_float32_and_back_is_exact(random):
    x = random(10_000)
    assert torch.equal(x.float().to(x.dtype), x)
