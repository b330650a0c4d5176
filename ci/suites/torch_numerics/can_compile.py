"""A probe: ends well where torch.compile works."""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.ones(8, device=device)
assert torch.compile(lambda y: y * 2 + 1)(x).sum().item() == 24
