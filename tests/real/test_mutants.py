"""One fault per schedule: the check names it, and a run that skips the check differs, breaks off or gets stuck."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from simfrontier.errors import SimfrontierError
from simfrontier.schedule import Schedule, check, digest, expand, save
from simfrontier_real.arrays import numpy_backend
from simfrontier_real.executor import inline, run_together
from simfrontier_real.loopback import LoopbackWorld
from simfrontier_real.train import TrainingRank, train_in_one_process
from simfrontier_real.verdict import scheduled_bytes
from tests.real.mutants import MUTANTS, swapped_on_one_rank
from tests.real.ranks import run_ranks
from tests.real.schedules import distance, training

STEPS = 2
LIMIT_S = 30.0 + 15.0  # from the fault; and four processes with torch to start, on a busy box


@pytest.mark.parametrize("name", MUTANTS)
def test_the_check_names_the_fault(name: str) -> None:
    mutant = MUTANTS[name]()
    assert check(mutant.base).is_clean
    findings = check(mutant.wrong).findings
    results = [each for each in findings if each.rule == mutant.rule]
    assert any(all(word in str(each) for word in mutant.named) for each in results), "\n".join(map(str, findings))


@pytest.mark.parametrize("name", MUTANTS)
def test_without_the_check_the_run_shows_it(name: str) -> None:
    mutant = MUTANTS[name]()
    if mutant.shows not in ("weights", "bytes"):
        with pytest.raises(SimfrontierError, match=re.escape(mutant.shows)):
            train_in_one_process(mutant.wrong, training(STEPS))
        return
    if mutant.shows == "weights":
        sound, wrong = (train_in_one_process(each, training(STEPS)) for each in (mutant.base, mutant.wrong))
        assert distance(wrong.weights, sound.weights) > 1e-4
    else:
        assert _moved(mutant.wrong) != _scheduled(mutant.wrong)
        assert _moved(mutant.base) == _scheduled(mutant.base)


def _ranks(schedules: list[Schedule]) -> list[TrainingRank]:
    """Ranks of one world, each with a schedule of its own."""
    world = LoopbackWorld(schedules[0].mesh)
    ranks = [
        TrainingRank(each, expand(each, each.roles[0]), numpy_backend(), rank, world.transport(rank), training(1))
        for rank, each in enumerate(schedules)
    ]
    for rank in ranks:
        rank.load(0)
    return ranks


def _moved(made: Schedule) -> int:
    """Bytes that a rank's messages really have in one step."""
    ranks = _ranks([made] * made.mesh.num_ranks)
    run_together([inline(rank.step) for rank in ranks])
    return sum(ranks[0].step.message_bytes.values())


def _scheduled(made: Schedule) -> int:
    return scheduled_bytes(made, expand(made, made.roles[0]))


def test_two_orders_that_are_sound_alone_get_stuck_together() -> None:
    """What the comparison of digests is for: rank 1 reduces over its node first, the others over all ranks first."""
    most, one = swapped_on_one_rank()
    assert check(most).is_clean and check(one).is_clean
    assert digest(most) != digest(one)
    run_together([inline(rank.step) for rank in _ranks([one] * 4)])
    with pytest.raises(SimfrontierError, match=r"^stuck: ") as caught:
        run_together([inline(rank.step) for rank in _ranks([most, one, most, most])])
    message = str(caught.value)
    assert re.search(
        r"rank 0, reduce: running op \d+, [^;]*reduce_scatter gradient of \S+\.bias\.grad\.raw", message
    ), message
    assert re.search(r"rank 1, reduce: running op \d+, [^;]*reduce_scatter gradient of \S+\.ordered0", message), message
    assert re.search(r"rank 1, compute: op \d+, .* waits for reduce \d+ of \d+ ops", message), message


# ── real processes over gloo ──


def test_real_ranks_that_swap_two_collectives_end_with_the_table(tmp_path: Path) -> None:
    most, one = swapped_on_one_rank()
    save(most, tmp_path / "schedule-most.json")
    save(one, tmp_path / "schedule-one.json")

    def arguments(name: str) -> list[str]:
        file = str(tmp_path / f"schedule-{name}.json")
        return ["train", file, "--unchecked", "--timeout", "4", "--no-reference", "--out", str(tmp_path / "out")]

    ended = run_ranks([arguments("most"), arguments("one"), arguments("most"), arguments("most")], LIMIT_S)
    assert ended.orphans == () and all(ended.codes), (ended.codes, ended.err)
    first, *table = ended.err.strip().splitlines()
    assert first == (
        "simfrontier-real: stuck: no op has ended within the timeout. What each rank runs and waits for:"
    ), ended.err
    running = [line for line in table if "reduce: running" in line]  # each with the ranks that say it, the fewest first
    assert len(running) == 2, ended.err
    assert running[0].startswith("  rank 1  ") and running[0].endswith(".ordered0"), ended.err
    assert running[1].startswith("  rank 0, 2, 3  ") and running[1].endswith(".bias.grad.raw"), ended.err
    assert not (tmp_path / "out").exists()


def test_real_ranks_with_faults_that_do_not_stop_them_differ(tmp_path: Path) -> None:
    """All faults that let a run end, in one launch without the check."""
    files, expected = [], {}
    for name, make in MUTANTS.items():
        mutant = make()
        if mutant.shows in ("weights", "bytes"):
            key = name.replace(" ", "-")
            save(mutant.wrong, tmp_path / f"schedule-{key}.json")
            files.append(str(tmp_path / f"schedule-{key}.json"))
            expected[key] = mutant
    report = tmp_path / "trained.json"
    arguments = ["train", *files, "--unchecked", "--steps", str(STEPS), "--json", str(report)]
    ended = run_ranks([arguments] * 4, 120.0)
    assert ended.orphans == () and set(ended.codes) == {1}, ended.err
    results = {each["name"]: each for each in json.loads(report.read_text(encoding="utf-8"))}
    assert results.keys() == expected.keys()
    for name, result in results.items():
        if expected[name].shows == "bytes":
            assert result["message_bytes"] != result["scheduled_bytes"], name
        else:
            assert result["weights_error"] > 1e-4, name
            assert result["message_bytes"] == result["scheduled_bytes"], name
        assert not result["is_good"], name  # also where moves are quantised
    known = {line.split()[0]: line for line in ended.out.splitlines()[1:]}
    assert known["stale-gather"].rstrip().rpartition("  ")[2].startswith("DIFFERS: gradient")


def test_real_ranks_refuse_what_the_check_finds(tmp_path: Path) -> None:
    mutant = MUTANTS["stale gather"]()
    save(mutant.wrong, tmp_path / "schedule-stale.json")
    ended = run_ranks([["train", str(tmp_path / "schedule-stale.json")]] * 4, LIMIT_S)
    assert ended.orphans == () and set(ended.codes) == {1}, ended.codes
    (line,) = ended.err.strip().splitlines()
    assert re.match(
        r"simfrontier-real: \S+schedule-stale\.json: the schedule is not sound: versions: forward of layer 0, .* "
        r"\(and \d+ more findings\)$",
        line,
    ), line
