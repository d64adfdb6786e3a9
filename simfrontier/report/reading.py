"""How to read the page: what the columns mean, and which versions and inputs made it."""

from __future__ import annotations

from simfrontier.report.manifest import scenario_digest, versions
from simfrontier.report.markup import paragraph, section, table, text
from simfrontier.report.view import StudyView
from simfrontier.simulation import Fidelity
from simfrontier.workload import GptShape

_LIMITS: dict[Fidelity, str] = {
    "flow": (
        "Operations share links and memory fairly, kernels the compute units that collectives leave; single messages "
        "are not simulated."
    ),
    "chunk": (
        "Every message passes its links by itself, first come first served; what a device does by itself takes its "
        "time alone, and messages load neither memory nor compute units."
    ),
    "analytic": (
        "Operations do not disturb each other, so times are too short where different ones share links, and may be too "
        "long where groups of one call do that start one after the other."
    ),
}


def reading(view: StudyView) -> str:
    """The last section: definitions, and what made this page."""
    rows = [[f"<code>{text(name)}</code>", text(meaning)] for name, meaning in definitions(view).items()]
    return section(
        "reading",
        "How to read this",
        paragraph(
            "Nothing here was measured: every time is predicted by simulating the schedule that a plan implies, "
            f"operation by operation, on a model of the machine. {_LIMITS[view.study.fidelity]} Prefixes are "
            "decimal: 1 GB is 10⁹ bytes."
        ),
        table(["column", "meaning"], rows, "words"),
        "<h3>What made this page</h3>",
        table(["what", "value"], _made(view), "words"),
    )


def definitions(view: StudyView) -> dict[str, str]:
    """Meaning of the columns of results.csv that the page uses."""
    return {
        "step_time_s": (
            "One optimizer step: from its first operation to the last one on the rank that ends last"
            f"{f', every {view.device} typical' if view.scenario.machine.device.speed_sd else ''}."
        ),
        "step_time_p05_s, step_time_p50_s, step_time_p95_s": (
            "Sampled steps: nine of ten take from the first to the third, half of them more than the second; "
            "empty where nothing is known to be uncertain."
        ),
        "compute_time_s": (
            "Time that this (critical) rank’s compute lane is busy with kernels, slowed by communication beside them."
        ),
        "exposed_comm_s": "Step minus compute: all that kernels do not hide, waiting and bubbles included.",
        "tflops_per_device": _tflops(view),
        "mfu": _mfu(view),
        "scaling_efficiency": f"A plan’s TFLOPS per {view.device} over its own at the smallest size at which it fits.",
        "speedup": "Tokens per second over those of the scenario’s first plan at the same size.",
        "bytes_package, bytes_intra_node, bytes_inter_node": (
            "Payload per step, summed over the machine, at the coarsest boundary between its two end points."
        ),
        "peak_memory_bytes, fits": (
            "Largest sum of live buffers on the critical rank (in a pipeline: on a rank of the stage that needs most), "
            "and whether memory holds it."
        ),
        "bound_s": "Lower bound at fidelity flow: the fullest lane if every operation ran alone, or the fullest link "
        "at full capacity.",
    }


def _tflops(view: StudyView) -> str:
    recomputing = set(view.recomputing.values())
    factor, recomputed = f"{4 if True in recomputing else 3}", "the recomputation of activation checkpointing"
    recomputed = f"{'with' if True in recomputing else 'without'} {recomputed}"
    if len(recomputing) > 1:
        factor, recomputed = "4 or 3", f"{recomputed} or, where a plan has none, without"
    if not isinstance(view.shapes[view.largest], GptShape):
        return (
            f"Operations of the model’s matrix products, {recomputed}, over step time and {view.devices}; tokens_per_s "
            "counts samples."
        )
    return (
        f"GPT-NeoX’s formula, 24 f B s L h² (1 + s/6h + V/16Lh) over step time and {view.devices}, with f = "
        f"{factor} ({recomputed}), B sequences of s tokens, L layers of width h, vocabulary V."
    )


def _mfu(view: StudyView) -> str:
    precision = view.scenario.precision.model
    peak = "16-bit" if precision in ("fp16", "bf16") else precision
    has_formula = isinstance(view.shapes[view.largest], GptShape)
    useful = "the same formula with f = 3" if has_formula else "the same operations without recomputation"
    return (
        f"Model flop/s utilisation: {useful} (recomputation is not useful work), over the nominal {peak} matrix peak."
    )


def _made(view: StudyView) -> list[list[str]]:
    rows = [[text(name), text(version)] for name, version in versions().items()]
    rows.append(["scenario (SHA-256 of its settings)", f"<code>{scenario_digest(view.scenario)}</code>"])
    for outcome in view.drawn:
        digest = text(outcome.row["schedule_digest"])
        rows.append([f"schedule of {text(outcome.plan)} on {outcome.devices:,}", f"<code>{digest}</code>"])
    return rows
