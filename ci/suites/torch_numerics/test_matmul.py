"""Matrix products against float64."""

import pytest
import torch


@pytest.mark.parametrize("size", [1, 7, 64, 256])
def test_square(size, random, backend, close):
    a, b = random(size, size), random(size, size)
    scale = size**-0.5
    close(backend(torch.matmul)(a, b) * scale, a.double() @ b.double() * scale, size)


@pytest.mark.parametrize("shape", [(3, 5, 7), (128, 1, 64), (33, 257, 9)])
def test_odd_shapes(shape, random, backend, close):
    m, k, n = shape
    a, b = random(m, k), random(k, n)
    close(backend(torch.matmul)(a, b) * k**-0.5, a.double() @ b.double() * k**-0.5, k)


def test_batched(random, backend, close):
    a, b = random(8, 32, 48), random(8, 48, 16)
    close(backend(torch.bmm)(a, b) * 48**-0.5, torch.bmm(a.double(), b.double()) * 48**-0.5, 48)


def test_transposed_operands(random, backend, close):
    a, b = random(40, 60), random(50, 40)
    close(backend(torch.matmul)(a.T, b.T) * 40**-0.5, a.double().T @ b.double().T * 40**-0.5, 40)
