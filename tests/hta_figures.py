"""Traces of simulated steps under Holistic Trace Analysis (package `traceinsight`), held against our own figures.

`make hta` runs this twice: by our Python it writes traces and figures into a folder, by that of an environment with
HTA it reads them. Exit code 1 where exposed communication lies more than 1 % apart."""

from __future__ import annotations

import json
import sys
from pathlib import Path

PLANS = ("zero3", "hsdp", "zeropp", "zero-topo")
DEVICES = 16
MOST_APART = 0.01
FIGURES = "figures.txt"  # HTA takes every .json file for a trace


def write(folder: Path) -> None:
    """The 20B's step under each plan, as traces, and its exposed communication in seconds."""
    import numpy as np

    from simfrontier.answers.step import exposure
    from simfrontier.answers.study import ScheduleCache, simulated
    from simfrontier.inputs.scenario import load_scenario
    from simfrontier.interfaces.exports.kineto.export import KINETO

    figures: dict[str, tuple[int, float]] = {}
    scenario = load_scenario(Path("scenarios/frontier-20b.toml"), {}, PLANS, (DEVICES,))
    for plan in PLANS:
        step = simulated(scenario, ScheduleCache().get(scenario, plan, DEVICES), "flow", False)
        (folder / plan).mkdir(parents=True, exist_ok=True)
        KINETO.write(scenario, plan, step, folder / plan)
        spent = exposure(step)
        rank = int(np.flatnonzero(step.pricing.folding.rank_class == step.critical)[0])
        figures[plan] = rank, spent.inter_node + spent.intra_node + spent.package
    (folder / FIGURES).write_text(json.dumps(figures), encoding="utf-8")


def read(folder: Path) -> int:
    """Hold HTA's breakdown of each plan against the figures; returns how many lie too far apart."""
    from hta.configs.env_options import HTAEnvOptions
    from hta.trace_analysis import TraceAnalysis

    HTAEnvOptions.instance().set_disable_ns_rounding(True)  # else it cuts every time to whole microseconds
    apart = 0
    for plan, (rank, exposed_s) in json.loads((folder / FIGURES).read_text(encoding="utf-8")).items():
        analysis = TraceAnalysis(trace_dir=str(folder / plan))
        row = analysis.get_temporal_breakdown(visualize=False).set_index("rank").loc[rank]
        overlap = analysis.get_comm_comp_overlap(visualize=False).set_index("rank").loc[rank]
        found_s = float(row["non_compute_time(us)"]) * 1e-6
        off = found_s / exposed_s - 1
        apart += abs(off) > MOST_APART
        sys.stdout.write(
            f"{plan}: exposed communication {exposed_s * 1e3:.3f} ms, by HTA {found_s * 1e3:.3f} ms ({off:+.2%}); "
            f"HTA's overlap {float(overlap.iloc[0]):.2f} %\n"
        )
    return apart


if __name__ == "__main__":
    verb, place = sys.argv[1:]
    if verb == "write":
        write(Path(place))
    else:
        sys.exit(1 if read(Path(place)) else 0)
