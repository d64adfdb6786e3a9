"""Figures of softmaxes and the loss that the documentation quotes."""

from typing import Any

from tests.documented import Quoted, Results, findings_of


def softmaxes(results: Results) -> dict[str, Any]:
    """Of `run` of a scenario with softmaxes: seconds of a step, milliseconds of scores and gains in percent, by plan,
    or by plan and size. Nominal steps."""
    findings = findings_of(results)["softmax"]
    made: dict[str, dict[str, float]] = {"scores_ms": {}, "gain": {}, "step": {}}
    for size in findings["sizes"]:
        for one in size["plans"]:
            for name in (one["plan"], f"{one['plan']} {size['devices']}"):
                made["scores_ms"][name] = 1e3 * one["spent"]["scores_s"]
                made["gain"][name] = 100 * (one["gain"] or 0.0)
                made["step"][name] = one["step_s"]
    return made


ADDS = (
    Quoted(
        page="docs/softmax.md",
        command="run scenarios/softmax.toml",
        read=softmaxes,
        sentences=(
            "attention's softmax takes {scores_ms[two-pass]:.1f} ms of the step with two passes over a row,"
            " {scores_ms[three-pass-recompute]:.1f} with three passes and recompute,"
            " {scores_ms[three-pass-reload]:.1f} with three and reload, and {scores_ms[fused]:.2f} ms if the row",
            "In a step of {step[two-pass]:.1f} s two passes gain {gain[two-pass]:.1f} % over reload.",
        ),
    ),
    *(
        Quoted(page=page, command="run scenarios/cross-entropy.toml", read=softmaxes, sentences=sentences)
        for page, sentences in (
            (
                "docs/softmax.md",
                (
                    "| all-reduces of 32 and 64 KiB | {gain[fused-two 2]:+.1f} % | {gain[fused-two 8]:+.1f} % |"
                    " {gain[fused-two 64]:+.1f} % |",
                    "| 1 all-gather of 96 KiB | {gain[one-gather 2]:+.1f} % | {gain[one-gather 8]:+.1f} % |"
                    " {gain[one-gather 64]:+.1f} % |",
                ),
            ),
        )
    ),
)
