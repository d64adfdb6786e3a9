"""Units: read from names of keys, written for people, and sizes as people write them."""

import pytest

from simfrontier.base.units import bytes_of, unit_of, written


@pytest.mark.parametrize(
    ("key", "unit"),
    [
        ("link_classes.nic.bytes_per_s", "bytes/s"),
        ("device.hbm_bytes", "bytes"),
        ("device.peak_flops_per_s", "flop/s"),
        ("host.hook_s", "s"),
        ("num_nodes", "count"),
        ("device.hbm_share", ""),
        ("tokens_per_s", "1/s"),
    ],
)
def test_units_are_read_from_names(key: str, unit: str) -> None:
    assert unit_of(key) == unit


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (25e9, "bytes/s", "25 GB/s"),
        (1000, "bytes", "1 kB"),
        (0.5, "bytes", "0.5 B"),
        (191.5e12, "flop/s", "191.5 Tflop/s"),
        (5e-6, "s", "5 µs"),
        (3600.0, "s", "3600 s"),
        (9408, "count", "9,408"),
        (0.737, "", "0.737"),
    ],
)
def test_numbers_are_written_for_people(value: float, unit: str, text: str) -> None:
    assert written(value, unit) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("64kB", 64_000),
        ("64 KiB", 65_536),
        ("1MiB", 1_048_576),
        ("1.5M", 1_500_000),
        ("0", 0),
    ],
)
def test_sizes_as_people_write_them(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "B", "-1", "1e6", "1iB", "1 MiBB", "1,000", "nan", "9" * 16, "٣"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number of bytes"):
        bytes_of(text)
