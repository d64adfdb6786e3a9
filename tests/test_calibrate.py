"""`simfrontier calibrate --tables`: logs of nccl-tests and rccl-tests of several versions, merging, and wrong logs."""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from simfrontier.collectives import MeasuredPoint, load_calibration, write_calibration
from tests.invoke import Ran, invoke, refusal

HEAD = """\
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 16777216 step: 4(factor) warmup iters: 5 iters: 20 agg iters: 1 graph: 0
#
# Using devices
"""
RANK = "#  Rank {rank:2} Group {group:2} Pid  {pid} on {host} device {device:2} [0000:c1:00] AMD Instinct MI250X\n"
COLUMNS = """\
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
TAIL = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 13.6052\n#\n"
TIMES = {1048576: 98.31, 4194304: 212.5, 16777216: 702.4}


def ranks(hosts: int = 2, per_host: int = 2, groups: int = 1) -> str:
    """Lines that name the ranks; with several groups, each has its ranks on all hosts."""
    lines = []
    for rank in range(hosts * per_host):
        host, device = divmod(rank, per_host)
        lines.append(RANK.format(rank=rank, group=device % groups, pid=41000 + rank, host=f"node{host}", device=device))
    return "".join(lines)


def rows(times: dict[int, float], redop: str = "none", wrong: str = "0") -> str:
    return "".join(
        f"{size:12} {size // 16:13}     float  {redop:>6}      -1  {micros:7}   10.67    8.00  {wrong:>5}"
        f"  {micros * 2:7}   10.71    8.03      0\n"
        for size, micros in times.items()
    )


def log(folder: Path, name: str = "all_gather_perf.log", text: str = "") -> Path:
    path = folder / name
    path.write_text(text or HEAD + ranks() + COLUMNS + rows(TIMES) + TAIL, encoding="utf-8")
    return path


def made(out: Path, *arguments: str | Path) -> Ran:
    done = invoke("calibrate", *arguments, "--out", out)
    assert (done.code, done.err) == (0, ""), done
    return done


def test_a_log_becomes_a_table(tmp_path: Path) -> None:
    done = made(tmp_path / "out.toml", log(tmp_path), "--when", "2024-10-03")
    calibration = load_calibration(tmp_path / "out.toml")
    (call,) = calibration.calls
    assert call.group == ("all_gather", 4, 2, 4)  # a package per rank, since nothing else is said
    # out of place, microseconds; the size column of an all-gather is the whole buffer
    assert call.points == tuple(MeasuredPoint(bytes=size, seconds=micros / 1e6) for size, micros in TIMES.items())
    assert call.residual is None
    assert (calibration.where, calibration.when) == ("node0, node1", "2024-10-03")
    assert calibration.how == "simfrontier calibrate all_gather_perf.log --out out.toml"
    line = next(line for line in done.out.splitlines() if line.startswith(" all_gather"))
    assert " ".join(line.split()) == "all_gather 4 2 4 3 1.049 MB to 16.78 MB 98.31 µs to 702.4 µs –"
    assert done.out.endswith(f"Written: {tmp_path}/out.toml; a scenario names it as library.calibration\n")


def test_the_date_of_the_log_stands_in_and_says_so(tmp_path: Path) -> None:
    path = log(tmp_path)
    os.utime(path, (1_700_000_000, 1_700_000_000))  # 14 November 2023, in every time zone but the last ones
    assert "when: 2023-11-1" in made(tmp_path / "out.toml", path).out
    assert load_calibration(tmp_path / "out.toml").when.endswith(" (date of all_gather_perf.log)")


def test_packages_are_the_users_to_say(tmp_path: Path) -> None:
    made(tmp_path / "out.toml", log(tmp_path), "--packages", "2", "--where", "Frontier")
    calibration = load_calibration(tmp_path / "out.toml")
    assert calibration.calls[0].group == ("all_gather", 4, 2, 2)
    assert calibration.how == "simfrontier calibrate all_gather_perf.log --packages 2 --out out.toml"
    assert (calibration.title, calibration.where) == ("nccl-tests on Frontier", "Frontier")


@pytest.mark.parametrize(
    ("test", "kind"),
    [
        ("all_gather_perf", "all_gather"),
        ("reduce_scatter_perf", "reduce_scatter"),
        ("all_reduce_perf", "all_reduce"),
        ("alltoall_perf", "all_to_all"),
    ],
)
def test_newer_versions_say_their_test(tmp_path: Path, test: str, kind: str) -> None:
    started = f"# nccl-tests version 2.17.6 nccl-headers=22705\n# Collective test starting: {test}\n"
    text = started + HEAD + ranks() + COLUMNS + rows(TIMES, "sum") + TAIL
    made(tmp_path / "out.toml", log(tmp_path, "slurm-1234.out", text))
    assert load_calibration(tmp_path / "out.toml").calls[0].kind == kind


def test_a_job_script_may_run_several_tests(tmp_path: Path) -> None:
    text = "".join(
        f"+ srun -N 2 ./build/{test} -b 1M -e 16M -f 4 -g 1\n" + HEAD + ranks() + COLUMNS + rows(TIMES) + TAIL
        for test in ("all_gather_perf", "alltoall_perf", "all_gather_perf")
    )
    made(tmp_path / "out.toml", log(tmp_path, "slurm.out", text))
    first, second = load_calibration(tmp_path / "out.toml").calls
    assert (first.kind, second.kind) == ("all_gather", "all_to_all")
    assert (first.residual, second.residual) == (0.0, None)  # measured twice, equal


def test_an_old_log_without_groups_operations_and_counts_of_wrong_values(tmp_path: Path) -> None:
    text = """\
# nThread: 1 nGpus: 2 minBytes: 8 maxBytes: 16 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#
# Using devices
#   Rank  0 Pid   2748 on   workbox device  0 [0x01] GeForce
#   Rank  1 Pid   2748 on   workbox device  1 [0x03] GeForce
#
#                                             out-of-place                       in-place
#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)             (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           0             0   float     4.10    0.00    0.00  0e+00     4.12    0.00    0.00  0e+00
           8             1   float     6.21    0.00    0.00  1e-06     6.23    0.00    0.00  0e+00
          16             2   float     6.23    0.00    0.00    N/A     6.28    0.00    0.00    N/A
"""
    made(tmp_path / "out.toml", log(tmp_path, "all_gather_perf-2gpus.txt", text))
    (call,) = load_calibration(tmp_path / "out.toml").calls
    assert call.group == ("all_gather", 2, 1, 2)
    assert call.points == (
        MeasuredPoint(bytes=8, seconds=6.21 / 1e6),
        MeasuredPoint(bytes=16, seconds=6.23 / 1e6),
    )


def test_an_all_to_all_without_an_operation(tmp_path: Path) -> None:
    text = HEAD + ranks() + COLUMNS + rows(TIMES, redop="") + TAIL  # the column is empty in some versions
    made(tmp_path / "out.toml", log(tmp_path, "alltoall_perf.log", text))
    assert [point.seconds for point in load_calibration(tmp_path / "out.toml").calls[0].points] == [
        micros / 1e6 for micros in TIMES.values()
    ]


def test_groups_at_once_are_groups_of_that_size(tmp_path: Path) -> None:
    # NCCL_TESTS_SPLIT: 8 ranks of two hosts in four groups, of one rank per host each
    text = HEAD + ranks(2, 4, groups=4) + COLUMNS + rows(TIMES) + TAIL
    made(tmp_path / "out.toml", log(tmp_path, text=text))
    assert load_calibration(tmp_path / "out.toml").calls[0].group == ("all_gather", 2, 2, 2)


def test_many_hosts_are_counted(tmp_path: Path) -> None:
    text = HEAD + ranks(6, 1) + COLUMNS + rows(TIMES) + TAIL
    made(tmp_path / "out.toml", log(tmp_path, text=text))
    assert load_calibration(tmp_path / "out.toml").where == "6 hosts, node0 to node5"


def test_two_passes_give_medians_and_a_residual(tmp_path: Path) -> None:
    second = {size: micros * 1.1 for size, micros in TIMES.items()}
    text = HEAD + ranks() + COLUMNS + rows(second) + TAIL
    files = (log(tmp_path), log(tmp_path, "second-all_gather_perf.log", text))
    made(tmp_path / "out.toml", *files)
    (call,) = load_calibration(tmp_path / "out.toml").calls
    assert [point.seconds for point in call.points] == pytest.approx([1.05 * micros / 1e6 for micros in TIMES.values()])
    assert call.residual == pytest.approx(0.1 / 1.05)


def test_calibrations_are_merged_with_logs(tmp_path: Path) -> None:
    made(tmp_path / "one.toml", log(tmp_path), "--packages", "2", "--when", "today", "--title", "one")
    made(tmp_path / "two.toml", log(tmp_path, "alltoall_perf.log"), "--when", "today", "--title", "two")
    known = load_calibration(tmp_path / "one.toml")
    write_calibration(
        replace(known, machine={"host.hook_s": 1e-5}, library={"ring.base_s": 1e-4}), tmp_path / "one.toml"
    )
    done = made(tmp_path / "all.toml", tmp_path / "one.toml", tmp_path / "two.toml", "--json")
    merged = load_calibration(tmp_path / "all.toml")
    assert (merged.title, merged.where, merged.when) == ("one; two", "node0, node1", "today")
    assert (merged.machine, merged.library) == ({"host.hook_s": 1e-5}, {"ring.base_s": 1e-4})
    assert [call.group for call in merged.calls] == [("all_gather", 4, 2, 2), ("all_to_all", 4, 2, 4)]
    document = json.loads(done.out)
    assert document["file"] == str(tmp_path / "all.toml") and document["when"] == "today"
    assert [(call["kind"], call["points"], call["largest_bytes"]) for call in document["calls"]] == [
        ("all_gather", 3, 16777216),
        ("all_to_all", 3, 16777216),
    ]
    # 12 MiB more take 489.9 us more
    assert document["calls"][0]["largest_message_bytes_per_s"] == pytest.approx(12582912 / 489.9e-6)
    assert tomllib.loads((tmp_path / "all.toml").read_text(encoding="utf-8"))["calls"][0]["packages"] == 2


# ── what is wrong ──


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "all_gather_perf.log",
            "nothing\n",
            ": no times of nccl-tests or rccl-tests in it, allowed: their output, or a",
        ),
        (
            "some.log",
            HEAD + ranks() + COLUMNS + rows(TIMES),
            ": the run at line 3: does not say its test, allowed: a file called after it, e.g. all_gather_perf.log",
        ),
        (
            "some.log",
            "# Collective test starting: all_gater_perf\n" + HEAD + ranks() + COLUMNS + rows(TIMES),
            ": the run at line 4: of all_gater_perf, allowed: all_gather_perf, reduce_scatter_perf, all_reduce_perf, ",
        ),
        (
            "some.log",
            "# Collective test starting: sendrecv_perf\n" + HEAD + ranks() + COLUMNS + rows(TIMES),
            ": the run at line 4: of sendrecv_perf, allowed: ",
        ),
        (
            "all_gather_perf.log",
            HEAD + COLUMNS + rows(TIMES),
            ': the run at line 3: names no ranks, allowed: lines "# Rank 0 ... on HOST device 0", equally',
        ),
        (
            "all_gather_perf.log",
            HEAD + ranks(1, 3, groups=2) + COLUMNS + rows(TIMES),
            ": the run at line 3: has groups of several sizes, allowed: ",
        ),
        (
            "all_gather_perf.log",
            HEAD + ranks(1, 1) + COLUMNS + rows(TIMES),
            ": the run at line 3: of one rank, allowed: two or more",
        ),
        (
            "all_gather_perf.log",
            HEAD + ranks() + COLUMNS + rows({1048576: 98.31}, wrong="17"),
            ": line 12: 17 wrong values, allowed: a run whose results are right",
        ),
        (
            "all_gather_perf.log",
            HEAD + ranks() + COLUMNS + rows({1048576: 98.31}).replace("98.31", "fast"),
            ": line 12: got '1048576 65536 float none -1 fast 10.67",
        ),
    ],
)
def test_each_fault_of_a_log_is_one_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = log(tmp_path, name, text)
    assert refusal("calibrate", path, "--out", tmp_path / "out.toml").startswith(f"{path}{message}")
    assert not (tmp_path / "out.toml").exists()


SUITE = "# Collective test starting: all_gather_perf\n" + HEAD + ranks() + COLUMNS + rows(TIMES) + TAIL
OTHER = HEAD + ranks() + COLUMNS + rows(TIMES) + TAIL


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SUITE + "# Collective test starting: broadcast_perf\n" + OTHER, "Left out: 1 run of broadcast_perf."),
        (SUITE + "srun broadcast_perf\n" + OTHER + "srun ./sendrecv_perf\n" + OTHER + "srun ./broadcast_perf\n" + OTHER,
         "Left out: 2 runs of broadcast_perf."),
        (SUITE + HEAD + ranks(1, 1) + COLUMNS + rows(TIMES) + TAIL, "Left out: 1 run of one rank."),
        (SUITE + HEAD + ranks() + ranks() + COLUMNS + rows(TIMES),
         "Left out: 1 run: rank 0 is there 2 times, as in the output of two jobs at once."),
        (SUITE + HEAD + ranks() + HEAD + ranks() + 2 * COLUMNS + 2 * rows(TIMES),
         "Left out: 1 run: two tables, as in the output of two jobs at once."),
        (SUITE.replace(TAIL, rows({1 << 26: 3e3}, wrong="17") + TAIL), "Left out: 1 line: wrong results."),
        (SUITE.replace(TAIL, rows({1 << 26: 3e3})[:-12] + "\n" + TAIL), "Left out: 1 line: no whole row."),
    ],
)  # fmt: skip
def test_a_run_or_line_that_cannot_be_used_is_left_out_and_counted(tmp_path: Path, text: str, said: str) -> None:
    done = made(tmp_path / "out.toml", log(tmp_path, text=text), "--json")
    assert said in json.loads(done.out)["said"]
    (table,) = load_calibration(tmp_path / "out.toml").calls
    assert (table.kind, {point.bytes: point.seconds * 1e6 for point in table.points}) == (
        "all_gather",
        pytest.approx(TIMES),
    )


def test_a_log_of_another_test_alone_is_left_out_beside_others(tmp_path: Path) -> None:
    other = log(tmp_path, "broadcast.log", "# Collective test starting: broadcast_perf\n" + OTHER)
    osu = tmp_path / "osu.txt"
    osu.write_text("# OSU MPI Broadcast_of_ours Latency Test v7.5\n# Size       Avg Latency(us)\n8   1.0\n")
    done = made(tmp_path / "out.toml", log(tmp_path), other, osu, "--json")
    assert json.loads(done.out)["said"] == [
        f"Left out: {other}: the run at line 4: of broadcast_perf.",
        f'Left out: {osu} line 3: "Broadcast_of_ours Latency Test": did you mean "Broadcast Latency Test"?; here '
        "collectives are expected.",
    ]
    whole = log(tmp_path, text=HEAD + ranks(2, 8) + COLUMNS + rows(TIMES))
    ran = invoke("validate", other, whole, "--machine", "frontier", "--library", "rccl", "--json")
    document = json.loads(ran.out)
    assert (ran.code, list(document["tables"])) == (0, [whole.name])
    assert f"Left out: {other}: the run at line 4: of broadcast_perf." in document["notes"]


def test_a_rank_number_twice_is_of_two_jobs(tmp_path: Path) -> None:
    """Two tests without MPI that print at once: ranks 0 to 3 on node0 and node1, and again."""
    path = log(tmp_path, text=HEAD + HEAD + ranks() + ranks() + COLUMNS + rows(TIMES) + rows(TIMES) + TAIL)
    assert refusal("calibrate", path, "--out", tmp_path / "out.toml") == (
        f"{path}: the run at line 6: rank 0 is there 2 times, as in the output of two jobs at once, "
        "allowed: every rank once"
    )


@pytest.mark.parametrize(
    ("packages", "message"),
    [
        ("3", ": the run at line 3: --packages: got 3, allowed: a divisor of its 4 ranks"),
        ("1", ": the run at line 3: --packages: got 1, allowed: a multiple of its 2 hosts"),
    ],
)
def test_packages_fit_the_ranks(tmp_path: Path, packages: str, message: str) -> None:
    path = log(tmp_path)
    got = refusal("calibrate", path, "--packages", packages, "--out", tmp_path / "out.toml")
    assert got == f"{path}{message}"


def test_files_that_are_not_there(tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out.toml")
    message = refusal("calibrate", tmp_path / "no.log", *out)
    assert message == f"{tmp_path}/no.log: cannot read this log: No such file or directory"
    message = refusal("calibrate", tmp_path / "no.toml", *out)
    assert message == f"{tmp_path}/no.toml: cannot read this calibration file: No such file or directory"
    message = refusal("calibrate", log(tmp_path), "--out", tmp_path / "no" / "out.toml")
    assert message.startswith(f"{tmp_path}/no/out.toml: cannot be written: ")


def test_calibrations_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    made(tmp_path / "one.toml", log(tmp_path))
    known = load_calibration(tmp_path / "one.toml")
    for name, value in (("one", 1e-5), ("two", 2e-5)):
        write_calibration(replace(known, machine={"host.hook_s": value}), tmp_path / f"{name}.toml")
    message = refusal("calibrate", tmp_path / "one.toml", tmp_path / "two.toml", "--out", tmp_path / "all.toml")
    assert (
        message == f'{tmp_path}/two.toml: machine."host.hook_s": got 2e-05, allowed: 1e-05, as {tmp_path}/one.toml says'
    )
    assert not (tmp_path / "all.toml").exists()


def test_a_calibration_is_a_toml_file(tmp_path: Path) -> None:
    assert refusal("calibrate", log(tmp_path), "--out", tmp_path / "out.txt") == (
        f"--out: got '{tmp_path / 'out.txt'}'; allowed: a name that ends in .toml"
    )
