"""The layout of the ranks of tensor-parallel plans: the grid of each plan and size, its batch, and how it was
chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from simfrontier.plan import Options, TensorOptions
from simfrontier.report.markup import keyed, paragraph, section, table, text
from simfrontier.report.phrases import NOTHING, number, signed
from simfrontier.report.view import StudyView
from simfrontier.scenario import Case
from simfrontier.tuning import TriedGrid

GRID = {"x": "X", "y": "Y", "z": "Z", "tensor": "tensor", "stage": "stages"}  # axes of a mesh, as they are called
DATA = "data"


def ranks(view: StudyView) -> str:
    """The section, or nothing where no plan has a grid of its own."""
    if not any(isinstance(case.options, TensorOptions) for case in view.cases.values()):
        return ""
    return section(
        "ranks",
        "How the ranks are laid out",
        paragraph(
            f"Every {view.device} has one place in its plan’s grid. X, Y and Z are AxoNN’s (a weight’s inputs are cut "
            "over X, its outputs over Y, what is left and the batch over Z), tensor is Megatron-LM’s, stages are those "
            "of a pipeline; data counts replicas that have a part of the batch each. A step has as many sequences as "
            "micro-batch × micro-batches × data × Z."
        ),
        table(*_layouts(view), "named"),
        *(_candidates(plan, size, tried, view) for (plan, size), tried in view.searches.items()),
    )


def sizes(case: Case) -> dict[str, int]:
    """Ranks along each part of a case's grid, by its name; all that is not model-parallel is data."""
    mesh = dict(case.mesh.axes)
    own = {word: mesh.get(axis, 1) for axis, word in GRID.items()}
    data = case.devices
    for count in own.values():
        data //= count
    return {**own, DATA: data}


def grid(case: Case) -> str:
    """A case's grid in words: `X 2 × Y 2 × Z 16 × data 16`."""
    return " × ".join(f"{word} {count}" for word, count in sizes(case).items() if count > 1) or "one rank"


def _layouts(view: StudyView) -> tuple[list[str], list[list[str]]]:
    known = {key: sizes(case) for key, case in view.cases.items()}
    owned = {key: _own(case.options) for key, case in view.cases.items()}
    words = [
        word
        for axis, word in GRID.items()
        if any(word in own for own in owned.values()) and (axis != "stage" or any(s[word] > 1 for s in known.values()))
    ]
    several = len(set(view.shapes.values())) > 1
    chunked = any(case.chunks > 1 for case in view.cases.values())
    rows = []
    for (plan, size), case in view.cases.items():
        cells, own = known[plan, size], owned[plan, size]
        rows.append(
            [
                keyed(view.marks[plan].colour, plan),
                f"{size:,}",
                *([text(case.shape.name)] if several else []),
                *(f"{cells[word]:,}" if word in own else NOTHING for word in words),
                *([f"{case.chunks}"] if chunked else []),
                f"{cells[DATA]:,}",
                f"{case.micro_batch:,}",
                f"{case.grad_accum:,}",
                f"{case.samples:,}",
                _grid_choice_text(view, plan, size),
            ]
        )
    model = ["model"] if several else []
    chunks = ["runs of layers per stage"] if chunked else []
    tail = [*chunks, DATA, "micro-batch", "micro-batches", "sequences per step", "found by"]
    return ["plan", view.devices, *model, *words, *tail], rows


def _own(options: Options) -> list[str]:
    """The parts of a grid, as they are called, that a plan of this family has, the stages last."""
    if not isinstance(options, TensorOptions):
        return []
    return [GRID[axis] for axis, _ in reversed(options.inside)] + [GRID["stage"]]


def _grid_choice_text(view: StudyView, plan: str, size: int) -> str:
    tried = view.searches.get((plan, size))
    if tried is None:
        return "search" if plan in view.scenario.at(size).searches else "given"
    return f"search<small>of {len(tried):,} candidates</small>"


# ── what a search compared ──


def ordered(tried: Sequence[TriedGrid]) -> list[TriedGrid]:
    """The candidates, best first; those that have no rate last, in the order in which they were tried."""
    return sorted(tried, key=lambda one: -one.rate if one.rate is not None else 1.0)


def _candidates(plan: str, size: int, tried: Sequence[TriedGrid], view: StudyView) -> str:
    """What was compared, in a box that a reader may open."""
    best, differing = ordered(tried), _differing(tried)
    columns = [_columns(one.options, size, differing) for one in best]
    rows = ([*cells.values(), *_cells(one, best[0].rate)] for cells, one in zip(columns, best, strict=True))
    head = [*columns[0], "sequences/s", "against the best"]
    search = view.scenario.at(size).searches[plan]
    order = f"proposed by the model of communication {search.by}, in its order" if search.by else "every combination"
    title = f"<b>{text(plan)}</b> on {size:,} {view.devices}: the {len(best):,} candidates of its search, best first"
    message = paragraph(
        f"Candidates: {order}. Compared at fidelity analytic; the fastest that fits into memory was taken, of equals "
        "the first.",
        "note",
    )
    return f"<details><summary>{title}</summary>{message}{table(head, rows, 'named')}</details>"


def _cells(one: TriedGrid, best: float | None) -> Iterator[str]:
    if one.rate is None or best is None:
        yield NOTHING
        yield f'<span class="no">{text(one.why)}</span>'
    else:
        yield number(one.rate)
        yield signed(one.rate / best - 1) if one.rate < best else "best"


def _differing(tried: Sequence[TriedGrid]) -> list[str]:
    """Keys in which the candidates differ."""
    tables = [_table(one.options) for one in tried]
    return [key for key in tables[0] if any(table[key] != tables[0][key] for table in tables)]


def _table(options: Options) -> Mapping[str, object]:
    return {key: value.family if isinstance(value, Options) else value for key, value in options}


def _columns(options: Options, size: int, differing: Sequence[str]) -> dict[str, str]:
    """A candidate's grid on so many devices by the name of its parts, the first of them the row's name, and all else
    in which candidates differ. No count of replicas where the grid does not divide the devices."""
    made, left = {}, size
    if isinstance(options, TensorOptions):
        counts = {GRID[axis]: count for axis, count in reversed(options.inside)} | {GRID["stage"]: options.pipeline}
        for count in counts.values():
            left = left // count if left % count == 0 else 0
        if options.pipeline == 1 and "pipeline" not in differing:
            del counts[GRID["stage"]]
        made = {**{word: f"{count:,}" for word, count in counts.items()}, DATA: f"{left:,}" if left else NOTHING}
    known = _table(options)
    more = [key for key in differing if key not in (*GRID, "pipeline")]
    others = {"plan on data" if key == DATA else key.replace("_", "-"): text(known[key]) for key in more}
    return made | others or {"candidate": "the only one"}


def found_grid(options: Options, size: int, tried: Sequence[TriedGrid]) -> str:
    """What a search found in a line: `x 1, y 1, z 512, data 2`."""
    return ", ".join(f"{word.lower()} {value}" for word, value in _columns(options, size, _differing(tried)).items())
