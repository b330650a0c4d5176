"""Gradients against what pen and paper say, in float64."""

import jax
import jax.numpy as jnp
import numpy as np


def exact(x):
    return np.asarray(x, dtype=np.float64)


def test_tanh(random, close):
    x = random(1000)
    gradient = jax.jit(jax.vmap(jax.grad(jnp.tanh)))(x)
    close(gradient, 1 - np.tanh(exact(x)) ** 2, 4)


def test_linear(random, close):
    x, w = random(32, 64), random(64, 16)
    gradient = jax.jit(jax.grad(lambda v: jnp.sum(jnp.matmul(x, v, precision="highest")) / 64))(w)
    close(gradient, np.repeat(exact(x).sum(0)[:, None] / 64, 16, axis=1), 64)


def test_quadratic(random, close):
    x = random(100)
    close(jax.jit(jax.grad(lambda v: jnp.sum(v * v) / 2))(x), exact(x), 1)
