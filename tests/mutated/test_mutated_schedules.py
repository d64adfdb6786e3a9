"""Some mutations of every kind of fact, of four schedules: what passes the check trains as the sound schedule does."""

import pytest

from tests.mutated.__main__ import judged

SHARES = "tensors.shares"


@pytest.mark.parametrize("case", ["ddp", "zero3", "tensor"])
def test_no_type_place_or_size_of_a_tensor_passes_and_trains_differently(case: str) -> None:
    seen = judged(case, seed=1, per_kind=2, kinds="tensors.")
    assert len(seen) >= 40
    assert [str(one) for one in seen if one.is_hole] == []


@pytest.mark.parametrize("case", ["ddp", "zero3"])
def test_no_wrong_sharing_of_memory_passes(case: str) -> None:
    seen = judged(case, seed=2, per_kind=20, kinds=SHARES)
    passed = [
        str(one) for one in seen if one.verdict not in ("refused", "same") and not one.mutation.kind.endswith("gone")
    ]
    assert len(seen) >= 20 and passed == []
