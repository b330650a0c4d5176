"""What this item sees is what it was given, and it can compute there."""

import torch
from given_devices import check_count, check_uuids, driver_present, given


def test_exactly_the_given_devices_are_visible():
    if (torch.version.cuda or torch.version.hip) and driver_present():
        check_count(torch.cuda.device_count())
    else:
        assert torch.cuda.device_count() == 0


def test_they_are_the_very_ones():
    if torch.version.cuda and driver_present() and given():
        count = torch.cuda.device_count()
        check_uuids([str(torch.cuda.get_device_properties(index).uuid) for index in range(count)])


def test_a_sum_on_the_device(device):
    assert torch.arange(1000, device=device).sum().item() == 499_500


def test_two_ways_to_the_device_agree(device):
    values = torch.linspace(0, 1, 4096)
    assert torch.equal(values.to(device).cpu(), values)
