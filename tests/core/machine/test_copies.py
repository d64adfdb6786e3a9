"""Single messages between nodes, by hand."""

import pytest
from hypothesis import given, strategies as st

from simfrontier.core.machine import Copies, Messages, load_machine

MESSAGES = Messages(gap_s=1e-6, bytes_per_s=10e9, half_bytes=2000.0, rendezvous_bytes=10_000.0)
COPIES = Copies(
    routed_share=0.9,
    engine_bytes_per_s=50e9,
    in_node_sd=0.05,
    between_nodes_sd=0.05,
    short_bytes=100.0,
    short_s=2e-6,
    eager_s=3e-6,
    eager_bytes_per_s=5e9,
    rendezvous_s=7e-6,
    libraries={"mpi": MESSAGES},
)


@pytest.mark.parametrize(
    ("num_bytes", "seconds"),
    [
        (1, 1e-6),  # the gap; (1 + 2000) / 10e9 would be 0.2 us
        (8000, 1e-6),  # both: (8000 + 2000) / 10e9
        (18000, 2e-6),
        (2_000, 1e-6),
    ],
)
def test_a_stream_takes_the_gap_or_the_wire(num_bytes: int, seconds: float) -> None:
    assert MESSAGES.streamed_s(num_bytes) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(
    ("num_bytes", "seconds"),
    [
        (100, 2e-6),  # short
        (101, 3e-6 + 101 / 5e9),  # eager
        (9_999, 3e-6 + 9_999 / 5e9),
        (10_000, 7e-6 + 1e-6),  # agreed upon: 7 us + 10000 / 10e9
    ],
)
def test_a_message_alone_is_short_eager_or_agreed_upon(num_bytes: int, seconds: float) -> None:
    assert COPIES.alone_s("mpi", num_bytes) == pytest.approx(seconds, rel=1e-12)


@given(st.integers(1, 2**30), st.integers(1, 2**30))
def test_more_bytes_never_take_less_time(a: int, b: int) -> None:
    copies = load_machine("frontier").copies
    assert copies is not None
    few, many = sorted((a, b))
    for library, messages in copies.libraries.items():
        assert messages.streamed_s(few) <= messages.streamed_s(many)
        assert copies.alone_s(library, few) <= copies.alone_s(library, many)


def test_start_up_of_copies_in_a_node_is_the_same_in_all_classes() -> None:
    links = load_machine("frontier").link_classes
    starts = [
        links[name].half_bytes / (links[name].share * links[name].bytes_per_s) for name in links if "xgmi" in name
    ]
    assert starts == pytest.approx([10.7e-6] * 3, rel=0.02)
    assert {links[name].half_bytes for name in ("pcie", "nic", "global")} == {0.0}
