"""Pass that keeps activations of some layers in the host's memory from their forward to their backward.

The copies to the host and back have lanes of their own. A layer's activations leave beside the forward of the next
layer, and the layer after that waits for them, so that those of two layers at most are in memory; they come back beside
the backward of the layer before (Megatron-Core's cpu_offloading_num_layers: Transformer Engine, pytorch/cpu_offload.py,
AsyncDoubleBufferGroupOffloadHandler).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, TypeGuard

from simfrontier.core.plan.program import Item, Place, Placed, Program, token_tensor
from simfrontier.core.plan.tensors import Tensors
from simfrontier.core.program import Collective, Compute, Exchange, Ref, Tensor, is_wait

OUT, BACK = "offload", "reload"  # kinds of ops, and the names of their lanes
AFTER: Final = ("backward", "weight_gradients")  # labels of the calls that read what a forward has kept
TOKEN: Final = "offload.done"
Kept = Mapping[int, tuple[str, ...]]  # names of what backwards of a layer read from the forward, by layer


def kept_for_backward(program: Program, tensors: Tensors) -> Kept:
    """Return what backwards read from the forwards of those layers whose activations leave, of a program that has
    both."""
    work, written = tensors.workload, set[Ref]()
    made = {name for phase in (work.embedding, *work.kinds) for op in phase.forward for name, _ in op.writes}
    kept: dict[int, dict[str, None]] = {layer: {} for layer in sorted(tensors.offloaded)}
    for place, item in program.items:
        if place.label not in AFTER or place.layer not in kept:
            continue
        for ref in _read(item):
            tensor = program.tensors[ref.name]
            if ref.layer == place.layer and ref not in written and tensor.value in made and _can_leave(tensor):
                kept[place.layer][ref.name] = None
        written.update(_written(item))
    return {layer: tuple(names) for layer, names in kept.items()}


def _can_leave(tensor: Tensor) -> bool:
    return tensor.role == "activation" and tensor.per_layer and not tensor.persistent and tensor.recomputes is None


def _read(item: Item) -> tuple[Ref, ...]:
    return item.reads if isinstance(item, Compute) else getattr(item, "src", ())


def _written(item: Item) -> tuple[Ref, ...]:
    return item.writes if isinstance(item, Compute) else getattr(item, "dst", ())


def with_offload(program: Program, tensors: Tensors) -> Program:
    """Return the program with copies of what backwards of `tensors.offloaded` layers read to the host's memory, and
    back into buffers of their own, from which backwards read it."""
    kept = tensors.kept or kept_for_backward(program, tensors)
    return _Offload(program, kept).program() if any(kept.values()) else program


class _Offload:
    """Builder of the program with copies. `kept`: the names of what each layer's backward reads from its forward."""

    def __init__(self, program: Program, kept: Kept) -> None:
        self.items, self.kept, self.tensors = program.items, kept, dict(program.tensors)
        for name in {name for names in kept.values() for name in names}:
            like = self.tensors[name]
            for form, on_host in ((OUT, True), (BACK, False)):
                made = replace(like, name=f"{name}.{form}", form_of=like.value, on_host=on_host)
                self.tensors[made.name] = made
        token = token_tensor(TOKEN, per_layer=True)
        self.tensors[token.name] = token
        self.calls = {(place.label, place.layer, place.micro) for place, _ in self.items}

    def program(self) -> Program:
        out: Placed = []
        for place, items in _calls(self.items):
            made: Iterable[Item] = items
            if place.label == "forward":
                made = self._forward(place, items)
            elif place.label in AFTER:
                made = self._backward(place, [self._from_back(item, place.layer) for item in items])
            out += [(place, item) for item in made]
        return Program(out, self.tensors)

    def _leaves(self, label: str, layer: int, micro: int) -> bool:
        """Return whether a layer's activations leave, of which this program has the call with this label."""
        return bool(self.kept.get(layer)) and (label, layer, micro) in self.calls

    def _forward(self, place: Place, items: list[Item]) -> Iterator[Item]:
        """Yield a layer's forward, which waits for the copies of the activations of the layer before the last one, and
        those of the last one, or of its own if no other forward follows."""
        label, layer, micro = place
        if self._leaves(label, layer - 2, micro):
            yield Compute(kind="hook", name=OUT, reads=(Ref(TOKEN, layer - 2, micro),))
        yield from items
        is_last = (label, layer + 1, micro) not in self.calls
        for leaving in (layer - 1, layer) if is_last else (layer - 1,):
            if self._leaves(label, leaving, micro):
                own, on_host = self._refs("", leaving, micro), self._refs(OUT, leaving, micro)
                yield Compute(kind=OUT, name=OUT, reads=own, writes=(*on_host, Ref(TOKEN, leaving, micro)), lane=OUT)

    def _backward(self, place: Place, items: list[Item]) -> Iterator[Item]:
        """Yield a layer's backward, and beside it, once its first kernel has ended, the copies of the activations of
        the layer that is next; before it those of its own if no other backward has done that."""
        label, layer, micro = place
        if label == "backward" and self._leaves(label, layer, micro) and (label, layer + 1, micro) not in self.calls:
            yield self._back(layer, micro)
        has_next = label == "backward" and self._leaves(label, layer - 1, micro)
        for item in items:
            yield item
            if has_next and _is_whole_kernel(item):
                yield Compute(kind="hook", name=BACK, reads=item.writes or item.reads, lane=BACK)
                yield self._back(layer - 1, micro)
                has_next = False

    def _refs(self, form: str, layer: int, micro: int) -> tuple[Ref, ...]:
        """Return a layer's activations, or the forms of them on the host (`OUT`) or back from there (`BACK`)."""
        return tuple(Ref(f"{name}.{form}" if form else name, layer, micro) for name in self.kept[layer])

    def _back(self, layer: int, micro: int) -> Compute:
        """Return the copy of a layer's activations back from the host."""
        reads, writes = (self._refs(form, layer, micro) for form in (OUT, BACK))
        return Compute(kind=BACK, name=BACK, reads=reads, writes=writes, lane=BACK)

    def _from_back(self, item: Item, layer: int) -> Item:
        def back(refs: tuple[Ref, ...]) -> tuple[Ref, ...]:
            is_here = [ref.layer == layer and ref.name in self.kept.get(layer, ()) for ref in refs]
            return tuple(
                ref._replace(name=f"{ref.name}.{BACK}") if one else ref for ref, one in zip(refs, is_here, strict=True)
            )

        if isinstance(item, Compute):
            return replace(item, reads=back(item.reads))
        return replace(item, src=back(item.src)) if isinstance(item, Collective | Exchange) else item


def _calls(items: Placed) -> Iterator[tuple[Place, list[Item]]]:
    """Yield the items of each call, in order."""
    held: list[Item] = []
    for number, (place, item) in enumerate(items):
        held.append(item)
        if number + 1 == len(items) or items[number + 1][0] != place:
            yield place, held
            held = []


def _is_whole_kernel(item: Item) -> TypeGuard[Compute]:
    """Return whether an item is a kernel, or the last piece of one."""
    if not isinstance(item, Compute) or item.lane != "compute" or is_wait(item):
        return False
    return item.piece is None or item.piece.number + 1 == item.piece.parts
