"""The device of an item, checked before its first test, and the type that its line asks for."""

from __future__ import annotations

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from given_devices import check_count


@pytest.fixture(scope="session", autouse=True)
def device():
    """Give the one device of this item: the GPU that the queue gave, else the CPU."""
    devices = jax.local_devices()
    if devices[0].platform != "cpu":
        check_count(len(devices))
    return devices[0]


@pytest.fixture(scope="session")
def dtype():
    return jnp.dtype(os.environ.get("SGPU_DTYPE", "float32"))


@pytest.fixture
def random(device, dtype):
    """Give a function that makes an array of a shape on the device: same seed, same values everywhere."""
    generator = np.random.default_rng(20_251)

    def make(*shape):
        return jax.device_put(jnp.asarray(generator.standard_normal(shape), dtype=dtype), device)

    return make


@pytest.fixture
def close(dtype):
    """Give a check against a float64 result; ``terms`` is how many products or summands went into a value."""
    eps = float(jnp.finfo(dtype).eps)

    def check(actual, exact, terms=1):
        bound = 4 * eps * max(1, terms) ** 0.5
        np.testing.assert_allclose(np.asarray(actual, dtype=np.float64), exact, rtol=bound, atol=bound)

    return check
