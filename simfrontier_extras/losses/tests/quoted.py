"""Figures of compressed messages that the documentation quotes."""

from typing import Any

from tests.documented import Quoted, Results, findings_of, study

LASSEN = "simfrontier_extras/losses/scenarios/lassen-neox-20b.toml"
POLICIES = (
    ("naive-zfp: 8 bits / 8 bits", "+22.5 %, loss degraded", "naive-zfp"),
    ("MZHybrid: 8 bits / lossless", "–", "MZHybrid"),
    ("ZHybrid: 8 bits / 16 bits", "+17.3 %, loss kept", "ZHybrid"),
)


def gains(results: Results) -> dict[str, Any]:
    """Those of a study, and gains over uncompressed messages of the same type in percent, of median steps: by plan
    (`gain`), by the words of each variation (`varied_gain`), and the ends of these (`least_gain`, `most_gain`)."""
    values = study(results)
    words = {each: compared for each, compared in values["varied"].items() if not each.startswith("at ")}
    varied = {
        each: {plan: 100 * (ratio - 1) for plan, ratio in compared.items() if ratio is not None}
        for each, compared in words.items()
    }
    plans = varied["default"]
    own = {one["plan"]: 100 * one["gain"] for one in findings_of(results)["losses"]["plans"]}
    rates = values["rate"]
    return {
        **values,
        "gain": own,
        "varied_gain": varied,
        "least_gain": {plan: min(one[plan] for one in varied.values() if plan in one) for plan in plans},
        "most_gain": {plan: max(one[plan] for one in varied.values() if plan in one) for plan in plans},
        "fp16_over": {plan: 100 * (rates["fp16-plain"] / rates[plan] - 1) for plan in ("plain", "ZHybrid")},
    }


ADDS = (
    Quoted(
        page="docs/headlines.md",
        command=f"run {LASSEN}",
        read=study,
        sentences=tuple(
            f"{words} | {published} | {{ratio[{policy}]:.3f}} | {{ratio_low[{policy}]:.3f}} to"
            f" {{ratio_high[{policy}]:.3f}} | {{ratio_least[{policy}]:.3f}} to {{ratio_most[{policy}]:.3f}} |"
            for words, published, policy in (
                ("192 V100 of Lassen (arXiv 2409.02423)", 1.225, "naive-zfp"),
                ("| hybrid compression (ZHybrid) : none, the same", 1.173, "ZHybrid"),
            )
        ),
    ),
    Quoted(
        page="simfrontier_extras/losses/README.md",
        command=f"run {LASSEN}",
        read=gains,
        sentences=(
            "({ratio_low[naive-zfp]:.3f} to {ratio_high[naive-zfp]:.3f} for naive-zfp)",
            *(
                f"| {words} | {{gain[{plan}]:+.1f}} % | {{least_gain[{plan}]:+.1f}} to {{most_gain[{plan}]:+.1f}} %"
                f" | {published} | {{gain[fp16-{plan}]:+.1f}} % |"
                for words, published, plan in POLICIES
            ),
            "| naive-mpc: lossless / lossless | {gain[naive-mpc]:+.1f} % | – | – | {gain[fp16-naive-mpc]:+.1f} % |",
            "Plain FP16 messages are {fp16_over[plain]:.1f} % faster than plain FP32 ones and"
            " {fp16_over[ZHybrid]:.1f} % faster than the best hybrid.",
            "at 56 GB/s the gain of ZHybrid is {varied_gain[ZFP's decoder = 56.25 GB/s][ZHybrid]:+.1f} %)",
            "(at half the bandwidth: {varied_gain[half of the X-Bus = 16 GB/s][naive-zfp]:+.1f} and"
            " {varied_gain[half of the X-Bus = 16 GB/s][ZHybrid]:+.1f} %)",
            "(NCCL's constants: {varied_gain[library = nccl][naive-zfp]:+.1f} and"
            " {varied_gain[library = nccl][ZHybrid]:+.1f} %)",
        ),
    ),
)
