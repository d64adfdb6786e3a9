"""Figures of compressed messages that the documentation quotes."""

from tests.documented import Quoted, study

LASSEN = "simfrontier_extras/losses/scenarios/lassen-neox-20b.toml"

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
        long=True,
    ),
    Quoted(
        page="simfrontier_extras/losses/README.md",
        command=f"run {LASSEN}",
        read=study,
        sentences=(
            "are {ratio[naive-zfp]:.3f} for naive-zfp and {ratio[ZHybrid]:.3f} for ZHybrid)",
            "({ratio_low[naive-zfp]:.3f} to {ratio_high[naive-zfp]:.3f} for naive-zfp)",
        ),
        long=True,
    ),
)
