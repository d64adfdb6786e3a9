"""`simfrontier-real softmax`: the table that it writes is what `simfrontier softmax` reads; bad input as one line."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

from simfrontier.errors import InputError
from simfrontier_extras.softmax.algorithms import IN_MEMORY
from simfrontier_extras.softmax.rates import COLUMNS as READ, read_rates
from simfrontier_extras.softmax.real.timing import COLUMNS, _share, parse_elements, refuse_too_large
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


def test_without_a_file_it_is_printed() -> None:
    done = real("--sizes", "50", "--repeat", "1", "--cache-bytes", "1000")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["algorithm"] for row in rows] == [*IN_MEMORY, *IN_MEMORY]
    assert [row["bytes_moved"] for row in rows[:3]] == ["600", "800", "1000"]  # 3, 4 and 5 passes over 50 floats


def test_both_halves_name_the_same_columns() -> None:
    assert COLUMNS == READ


def test_cached_rows_fit_into_a_core_s_own_cache_and_uncached_ones_into_none() -> None:
    """Rows of 128 KiB, with their results 256 KiB; else twice the last cache."""
    assert _share("cached", 2**25) == 2**17
    assert _share("uncached", 2**25) == 2**26


def test_what_takes_the_memory_is_named() -> None:
    with pytest.raises(InputError, match=r"^--sizes: got 1,000,000,000,000, which takes 8e\+03 GB; allowed"):
        refuse_too_large([10**12], 2**25)
    with pytest.raises(InputError, match=r"^--cache-bytes: got 1,000,000,000,000, which takes 4e\+03 GB; allowed"):
        refuse_too_large([100], 10**12)


def test_sizes() -> None:
    assert parse_elements("3e3, 1000,1e3,2.5e1,1e+4") == (25, 1000, 3000, 10000)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--sizes", "0"), "--sizes: got '0'; allowed: whole numbers of elements above 0"),
        (("--sizes", "-5"), "--sizes: got '-5'; allowed"),
        (("--sizes", "1.5"), "--sizes: got '1.5'; allowed"),
        (("--sizes", "1e3,ten"), "--sizes: got 'ten'; allowed"),
        (("--sizes", ","), "--sizes: got nothing; allowed"),
        (
            ("--sizes", "1e15"),
            "--sizes: got 1,000,000,000,000,000, which takes 8e+06 GB; allowed: what half of the free",
        ),
        (("--out", "/proc/version/x.csv"), "/proc/version: /proc/version is a file; allowed: a folder"),
        (("--out", "/proc"), "/proc: is a folder; allowed: a file"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    done = real(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"simfrontier-real: {message}") and done.stderr.count("\n") == 1
