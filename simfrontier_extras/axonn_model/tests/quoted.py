"""Figures of AxoNN and Megatron-LM that the documentation quotes."""

from tests.documented import Quoted, searched, study

AXONN = "simfrontier_extras/axonn_model/scenarios"
SHARES, SIZES = ("41.1", "36.3", "32.5", "22.0"), (512, 8192, 16384, 32768)

ADDS = (
    *(
        Quoted(
            page=page,
            command=f"run {AXONN}/axonn-perlmutter-80b.toml",
            read=study,
            sentences=(
                *(
                    f"{words} | {published}{unit} | {{{kind}[axonn]:{form}}}{unit}"
                    f" | {{{kind}_low[axonn]:{form}}} to {{{kind}_high[axonn]:{form}}}{unit}"
                    f" | {{{kind}_least[axonn]:{form}}} to {{{kind}_most[axonn]:{form}}}{unit} |"
                    for words, published, kind, form, unit in (
                        (share, 57, "share", ".1f", " %"),
                        (ratio, 1.26, "ratio", ".3f", ""),
                    )
                ),
                *more,
            ),
        )
        for page, share, ratio, more in (
            (
                "docs/headlines.md",
                "share of the peak (arXiv 2305.13525)",
                "| AxoNN : Megatron-LM, the same",
                (
                    "(where the default is {varied[at 1024][default][axonn]:.1f} %)",
                    "240 instead of 271 TF, it is"
                    " {varied[at 1024][rate of very large matrix products = 240 Tflop/s][axonn]:.1f} %;"
                    " without overlap of reduce-scatters"
                    " {varied[at 1024][AxoNN, overlap of reduce-scatters (ORS) = false][axonn]:.1f} %.",
                    "without overlap of all-gathers,"
                    " {varied[AxoNN, overlap of all-gathers (OAG) = false][axonn]:.3f}, and that without overlap of"
                    " reduce-scatters, {varied[AxoNN, overlap of reduce-scatters (ORS) = false][axonn]:.3f}.",
                ),
            ),
            (
                "docs/axonn.md",
                "| GPT-80B, 1,024 A100: AxoNN, share of the peak",
                "| AxoNN : Megatron-LM",
                (
                    "On Perlmutter AxoNN is predicted {share_off[axonn]:.0f} % too fast and Megatron-LM, at"
                    " {hfu[megatron]:.1f} % of the peak,",
                    "overlapped gradients, the ratio is {varied[software stack = megatron-core][axonn]:.3f}.",
                    "(without OAG the ratio is {varied[AxoNN, overlap of all-gathers (OAG) = false][axonn]:.3f})",
                ),
            ),
        )
    ),
    *(
        Quoted(
            page=page,
            command=f"run {AXONN}/axonn-frontier-weak-scaling.toml",
            read=study,
            sentences=tuple(
                f"{words} | {published} % | {{share[{size}]:.1f}} %"
                f" | {{share_low[{size}]:.1f}} to {{share_high[{size}]:.1f}} %"
                f" | {{share_least[{size}]:.1f}} to {{share_most[{size}]:.1f}} % |"
                for words, published, size in zip(rows, SHARES, SIZES, strict=True)
            ),
        )
        for page, rows in (
            (
                "docs/headlines.md",
                ("(arXiv 2502.08145)", "| 80B, 8,192 GCDs", "| 160B, 16,384 GCDs", "| 320B, 32,768 GCDs"),
            ),
            (
                "docs/axonn.md",
                (
                    "| AxoNN, 512 GCDs (5B), share of the peak",
                    "| 8,192 GCDs (80B)",
                    "| 16,384 GCDs (160B)",
                    "| 32,768 GCDs (320B)",
                ),
            ),
        )
    ),
    Quoted(
        page="docs/headlines.md",
        command=f"run {AXONN}/axonn-frontier-weak-scaling.toml",
        read=study,
        sentences=(
            *(
                f"| {size:,} | {published} % | {{varied[at {size}][default][axonn]:.1f}} % "
                + " ".join(
                    f"| {{varied[at {size}][{words}][axonn]:.1f}} %"
                    for words in (
                        "sequences per step = 8192",
                        "sequences per step = 16384",
                        "state of RCCL = rccl-no-gdr",
                        "state of RCCL = rccl-sockets",
                    )
                )
                + " |"
                for published, size in zip(SHARES, SIZES, strict=True)
            ),
            "512 GCDs reach {varied[at 512][software stack = none][axonn]:.1f} % at 2,048 sequences",
        ),
    ),
    Quoted(
        page="docs/axonn.md",
        command=f"run {AXONN}/axonn-frontier-weak-scaling.toml",
        read=study,
        sentences=(
            "With 8,192 the shares are {varied[at 512][sequences per step = 8192][axonn]:.1f},"
            " {varied[at 8192][sequences per step = 8192][axonn]:.1f},"
            " {varied[at 16384][sequences per step = 8192][axonn]:.1f} and"
            " {varied[at 32768][sequences per step = 8192][axonn]:.1f} %, with 16,384 those for the large sizes are"
            " {varied[at 8192][sequences per step = 16384][axonn]:.1f},"
            " {varied[at 16384][sequences per step = 16384][axonn]:.1f} and"
            " {varied[at 32768][sequences per step = 16384][axonn]:.1f} %, above the published shares.",
        ),
    ),
    Quoted(
        page="docs/best-plan.md",
        command=f"tune {AXONN}/axonn-perlmutter-80b.toml --devices 1024",
        read=searched,
        sentences=(
            "| 80B, 1,024 A100, batch 2,048 | {total:,} | {simulated} | ZeRO-3 with gathers and reductions in two hops,"
            " micro-batch 2 | {best_s:.1f} s, {best_gb:.0f} GB |",
        ),
    ),
)
