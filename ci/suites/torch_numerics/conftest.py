"""The device of an item, checked before its first test, and the type and backend that its line asks for."""

from __future__ import annotations

import os

import pytest
import torch
from given_devices import check_count, driver_present


@pytest.fixture(scope="session", autouse=True)
def device() -> torch.device:
    """Give the one device of this item: the GPU that the queue gave, else the CPU."""
    if not (torch.version.cuda or torch.version.hip) or not driver_present():
        return torch.device("cpu")
    check_count(torch.cuda.device_count())
    return torch.device("cuda", 0) if torch.cuda.device_count() else torch.device("cpu")


@pytest.fixture(scope="session")
def dtype() -> torch.dtype:
    return getattr(torch, os.environ.get("SGPU_DTYPE", "float32"))


@pytest.fixture(scope="session")
def backend():
    """Give a function that makes another one run eagerly, compiled, or under autocast."""
    name = os.environ.get("SGPU_BACKEND", "eager")
    if name == "compile":
        return torch.compile
    if name == "autocast":

        def under_autocast(function):
            def run(*args):
                wide = [arg.float() for arg in args]
                half = getattr(torch, os.environ["SGPU_DTYPE"])
                with torch.autocast(args[0].device.type, dtype=half):
                    return function(*wide)

            return run

        return under_autocast
    return lambda function: function


@pytest.fixture
def random(device, dtype):
    """Give a function that makes a tensor of a shape on the device: same seed, same values everywhere."""
    generator = torch.Generator().manual_seed(20_251)

    def make(*shape):
        return torch.randn(*shape, generator=generator).to(device=device, dtype=dtype)

    return make


@pytest.fixture
def close(dtype):
    """Give a check against a float64 result; ``terms`` is how many products or summands went into a value."""
    eps = torch.finfo(dtype).eps

    def check(actual, exact, terms=1):
        bound = 4 * eps * max(1, terms) ** 0.5
        torch.testing.assert_close(actual.double().cpu(), exact.double().cpu(), rtol=bound, atol=bound)

    return check
