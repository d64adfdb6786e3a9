"""Facts that schedules of Mugs state on their images: crops, and neighbours that join a query."""

from __future__ import annotations

from collections.abc import Iterator

from simfrontier.core.program import Compute, ModelFacts, Schedule


def _stated(schedule: Schedule) -> Iterator[tuple[str, str]]:
    """Yield (name, value and reason) of each fact in the schedule's meta that differs from its ops: those that join,
    pick and search give the crops of an image and the neighbours of a query; a model of images has no causal mask."""
    sizes = {op.kind: dict(op.iteration) for op in schedule.ops if isinstance(op, Compute)}
    if not {"join", "nearest", "pick"} <= sizes.keys():
        return
    images, crops = sizes["pick"].get("b", 1), sizes["join"].get("b", 1)
    seen = next(op for op in schedule.ops if op.kind == "pick").reads[0]
    views = schedule.tensors[seen.name].shape[0] // images
    shown = {
        "global_crops": (views, f"those of an image in {seen.name}"),
        "local_crops": (crops // images - views, "the others that are joined"),
        "neighbours": (sizes["nearest"].get("s", 1) - 1, "those that join a query"),
        "causal": (0, "an image is seen at once"),
    }
    for name, (counted, why) in shown.items():
        if schedule.meta.get(name) != counted:
            yield name, f"{counted}: {why}"


ADDS = (ModelFacts(stated=_stated),)
