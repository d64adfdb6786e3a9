"""`simfrontier-real softmax`: the table that it writes is what `simfrontier softmax` reads; bad input as one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

from simfrontier_extras.softmax.rates import read_rates
from tests.invoke import invoke


def real(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "simfrontier_real", "softmax", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_the_table_is_read_by_the_other_half(tmp_path: Path) -> None:
    out = tmp_path / "softmax.csv"
    done = real("--sizes", "100,3e3", "--repeat", "2", "--cache-bytes", "8000", "--out", str(out))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    result = read_rates(out)
    # 8 bytes of 100 elements fit into half of 8,000 bytes, those of 3,000 do not; 4 bytes of 3,000 do not fit into it
    assert result.kinds == ((100, "cached"), (100, "uncached"), (3000, "uncached"))
    assert result.outside == (3000,) and result.cache_bytes == 8000
    assert all(0 < rate.least_s <= rate.median_s < 1 for rate in result.rates.values())
    assert invoke("softmax", out, "--out", tmp_path / "page").code in (0, 1)  # which of them is a matter of the machine
    assert (tmp_path / "page" / "index.html").exists()
