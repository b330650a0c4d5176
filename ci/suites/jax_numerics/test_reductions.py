"""Sums, norms and softmax against float64 NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest


def exact(x):
    return np.asarray(x, dtype=np.float64)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_mean(axis, random, close):
    x = random(64, 128, 16)
    close(jax.jit(lambda y: jnp.mean(y, axis))(x), exact(x).mean(axis))


@pytest.mark.parametrize("size", [1, 31, 4096])
def test_softmax(size, random, close):
    x = random(16, size)
    powers = np.exp(exact(x) - exact(x).max(-1, keepdims=True))
    close(jax.jit(lambda y: jax.nn.softmax(y, -1))(x), powers / powers.sum(-1, keepdims=True))


def test_extremes_are_exact(random):
    x = random(1000)
    assert float(jnp.max(x)) == exact(x).max()
    assert int(jnp.argmin(x)) == exact(x).argmin()
