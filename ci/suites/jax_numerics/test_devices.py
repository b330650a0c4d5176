"""What this item sees is what it was given, and it can compute there."""

import jax
import jax.numpy as jnp
from given_devices import check_count


def test_exactly_the_given_devices_are_visible():
    devices = jax.local_devices()
    if devices[0].platform == "cpu":
        assert len(devices) >= 1
    else:
        check_count(len(devices))


def test_a_sum_on_the_device(device):
    assert int(jax.jit(jnp.sum)(jax.device_put(jnp.arange(1000), device))) == 499_500


def test_results_stay_on_the_device(device):
    x = jax.device_put(jnp.ones(16), device)
    assert jax.jit(lambda y: y * 2)(x).devices() == {device}
