"""Matrix products against float64 NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest


def exact(x):
    return np.asarray(x, dtype=np.float64)


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 7, 7), (64, 64, 64), (33, 257, 9), (128, 1, 64)])
def test_product(shape, random, close):
    m, k, n = shape
    a, b = random(m, k), random(k, n)
    product = jax.jit(lambda x, y: jnp.matmul(x, y, precision="highest") * k**-0.5)
    close(product(a, b), exact(a) @ exact(b) * k**-0.5, k)


def test_batched(random, close):
    a, b = random(8, 32, 48), random(8, 48, 16)
    product = jax.jit(jax.vmap(lambda x, y: jnp.matmul(x, y, precision="highest") * 48**-0.5))
    close(product(a, b), exact(a) @ exact(b) * 48**-0.5, 48)


def test_einsum(random, close):
    a, b = random(4, 16, 24), random(24, 6)
    product = jax.jit(lambda x, y: jnp.einsum("bij,jk->bik", x, y, precision="highest") * 24**-0.5)
    close(product(a, b), np.einsum("bij,jk->bik", exact(a), exact(b)) * 24**-0.5, 24)
