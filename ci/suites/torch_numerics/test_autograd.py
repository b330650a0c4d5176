"""Gradients against those of the same computation in float64."""

import torch


def gradients(function, *tensors):
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    function(*leaves).sum().backward()
    return [leaf.grad for leaf in leaves]


def agree(function, tensors, close, terms):
    exact = gradients(function, *(tensor.double() for tensor in tensors))
    for actual, wanted in zip(gradients(function, *tensors), exact, strict=True):
        close(actual, wanted, terms)


def test_linear(random, close):
    agree(lambda x, w: (x @ w) / 64, (random(32, 64), random(64, 16)), close, 64)


def test_softmax(random, close):
    agree(lambda x, y: torch.softmax(x, -1) * y, (random(16, 100), random(16, 100)), close, 4)


def test_mlp(random, close):
    tensors = random(8, 32) / 8, random(32, 64) / 8, random(64, 4) / 8
    agree(lambda x, v, w: torch.tanh(x @ v) @ w, tensors, close, 64)
