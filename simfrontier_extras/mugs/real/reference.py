"""Mugs in one process, by torch's autograd and optimizer on whole batches: what every schedule must agree with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simfrontier.core.program import Schedule
from simfrontier_extras.mugs.real.states import MugsSettings, crops, refuse, settings_of
from simfrontier_real.ops.attention import NORM_EPSILON
from simfrontier_real.train.models import initial_weights
from simfrontier_real.train.reference import ReferenceOptimizer
from simfrontier_real.train.training_settings import TrainingResult, TrainingSettings
from simfrontier_real.verify.gradients import whole_digests

Key = tuple[str, int]  # (name, layer)


def train_mugs(
    schedule: Schedule, training: TrainingSettings, dtype: str = "fp64", skipped: frozenset[int] = frozenset()
) -> TrainingResult:
    """Train the schedule's model on the same data from the same weights and states; the schedule only says which model.

    `dtype`: fp64 or fp32. Every gradient is clipped by its own norm. In steps of the numbers in `skipped` the optimizer
    does nothing. Raises InputError as `refuse` does.
    """
    import torch

    refuse(schedule)
    kind = {"fp64": torch.float64, "fp32": torch.float32}[dtype]
    start = {key: torch.tensor(values, dtype=kind) for key, values in initial_weights(schedule, training.seed).items()}
    trained = {
        key: values.requires_grad_() for key, values in start.items() if schedule.tensors[key[0]].role == "weight"
    }
    model = _Model(schedule, settings_of(training.of_model), kind, start)
    adam = training.adam
    optimizer = ReferenceOptimizer(schedule, trained, adam)
    grad_accum, losses = int(schedule.meta.get("grad_accum", 1)), []
    digests, num_clipped = [], 0
    directions: dict[Key, Any] = {}
    for step in range(training.steps):
        optimizer.zero_grad()
        total = 0.0
        for micro in range(grad_accum):
            loss = model.loss(crops(schedule, training.data_seed, step, micro)) / grad_accum
            loss.backward()
            total += float(loss.detach())
        gradients = {key: weight.grad for key, weight in trained.items() if weight.grad is not None}
        digests.append(whole_digests(((key, each.double().numpy()) for key, each in gradients.items()), directions))
        norms = {key: float(gradient.norm()) for key, gradient in gradients.items()}
        num_clipped += max(norms.values()) > adam.clip
        for key, gradient in gradients.items():
            gradient.mul_(min(1.0, adam.clip / norms[key]) if norms[key] > 0 else 1.0)
        if step not in skipped:
            optimizer.step()
        model.follow()
        losses.append(total)
    held = {key: values.detach().double().numpy() for key, values in model.by_key.items()}
    return TrainingResult(tuple(losses), held, gradients=tuple(digests), clipped_steps=num_clipped)


@dataclass
class _Model:
    """The student, the teacher, and their states; `by_key` has all weights and states, `places` the index of the next
    row in each queue."""

    schedule: Schedule
    settings: MugsSettings
    kind: Any
    by_key: dict[Key, Any]
    places: dict[str, int] = field(default_factory=dict)

    def loss(self, data: Mapping[str, Any]) -> Any:
        """Return the loss of one micro-batch, and advance queues, memories and centre."""
        import torch

        streams = ("teacher", "global", "local")
        pixels = {name: torch.as_tensor(data[f"{name}/pixels"]).to(self.kind) for name in streams}
        images = data["flags"].shape[0]
        with torch.no_grad():
            teacher = _Network(self, "teacher/")
            cls, mean = teacher.backbone(pixels["teacher"])
            keys = {
                "instance": teacher.head("instance", cls),
                "group": teacher.head("group", teacher.related(mean, self.by_key["teacher/memory", 0])),
            }
            targets = teacher.prototypes(cls)
            teacher_rows = mean.view(images, -1, mean.shape[-1])[:, 0]
        student = _Network(self, "")
        seen = [student.backbone(pixels[name]) for name in ("global", "local")]
        cls, mean = (
            torch.cat([part.view(images, -1, part.shape[-1]) for part in parts], dim=1).flatten(0, 1)
            for parts in zip(*seen, strict=True)
        )
        related = student.related(mean, self.by_key["student/memory", 0])
        queries = {"instance": student.head("instance", cls, True), "group": student.head("group", related, True)}
        loss = sum(self._contrast(name, queries[name], keys[name], images) for name in ("instance", "group"))
        loss = loss + self._cluster(student.prototypes(cls), targets, images)
        rows = seen[0][1].detach().view(images, -1, mean.shape[-1])[:, 0]
        for name in ("instance", "group"):
            by_view = keys[name].view(images, -1, keys[name].shape[-1]).transpose(0, 1)
            self._enter(f"{name}.queue", by_view.flatten(0, 1))
        self._enter("student/memory", rows[torch.as_tensor(data["flags"]).bool()])
        self._enter("teacher/memory", teacher_rows)
        momentum = self.settings.centre_momentum
        centre = self.by_key["cluster.centre", 0]
        self.by_key["cluster.centre", 0] = momentum * centre + (1 - momentum) * targets.mean(0)
        return loss

    def follow(self) -> None:
        """Move the teacher's weights towards the student's."""
        import torch

        momentum = self.settings.teacher_momentum
        with torch.no_grad():
            for (name, layer), values in self.by_key.items():
                student = self.schedule.tensors[name].follows
                if student is not None:
                    self.by_key[name, layer] = momentum * values + (1 - momentum) * self.by_key[student, layer]

    def _pairs(self, images: int, student: Any, teacher: Any) -> tuple[Any, Any]:
        """(student's, teacher's) rows of every pair of different crops of an image."""
        import torch

        student, teacher = (rows.view(images, -1, rows.shape[-1]) for rows in (student, teacher))
        views, every = teacher.shape[1], student.shape[1]
        pairs = [(crop, view) for view in range(views) for crop in range(every) if crop != view]
        crop, view = torch.tensor(pairs).T
        return student[:, crop].flatten(0, 1), teacher[:, view].flatten(0, 1)

    def _contrast(self, name: str, queries: Any, keys: Any, images: int) -> Any:
        import torch

        query, key = self._pairs(images, queries, keys)
        positive = torch.einsum("be,be->b", query, key)[:, None]
        logits = torch.cat([positive, query @ self.by_key[f"{name}.queue", 0]], dim=1)
        target = torch.zeros(logits.shape[0], dtype=torch.int64)
        return torch.nn.functional.cross_entropy(logits / self.settings.contrast_temperature, target)

    def _cluster(self, student: Any, teacher: Any, images: int) -> Any:
        import torch

        settings = self.settings
        sharp = torch.softmax((teacher - self.by_key["cluster.centre", 0]) / settings.teacher_temperature, dim=-1)
        scores, target = self._pairs(images, student / settings.student_temperature, sharp)
        return torch.nn.functional.cross_entropy(scores, target)

    def _enter(self, name: str, rows: Any) -> None:
        """Enter rows one by one at the next places: of a queue the columns, of a memory the rows."""
        kept = self.by_key[name, 0].clone()
        at = self.places.get(name, 0)
        by_entry = kept.T if self.schedule.tensors[name].dims[-1] == "k" else kept
        for row in rows:
            by_entry[at] = row
            at = (at + 1) % len(by_entry)
        self.by_key[name, 0], self.places[name] = kept, at


@dataclass(frozen=True)
class _Network:
    """The student's weights, or with a `prefix` the teacher's, as functions."""

    model: _Model
    prefix: str

    def backbone(self, pixels: Any) -> tuple[Any, Any]:
        """(class token, mean token) of each crop, given as patches."""
        import torch

        patches = self._linear(pixels, "patch")
        cls, table = self._weight("positions.cls"), self._weight("positions.table")
        x = torch.cat([cls.expand(patches.shape[0], 1, -1), patches], dim=1)
        x = x + table[: x.shape[1]]
        for layer in range(int(self.model.schedule.meta["num_layers"])):
            x = self._block(x, "", layer)
        x = self._norm(x, "final_norm")
        return x[:, 0], x.mean(1)

    def head(self, name: str, x: Any, predicts: bool = False) -> Any:
        """Rows of length 1 of a projector, or of the student's predictor of them."""
        from torch.nn import functional

        for number in (1, 2):
            x = _gelu(self._linear(x, f"{name}.{number}"))
        x = self._linear(x, f"{name}.3")
        if predicts:
            x = functional.normalize(x, dim=-1)
            x = self._linear(_gelu(self._linear(x, f"{name}.predict.1")), f"{name}.predict.2")
        return functional.normalize(x, dim=-1)

    def prototypes(self, cls: Any) -> Any:
        """Scores of every prototype."""
        weight = self._weight("last.weight")
        rows = self._weight("last.norm")[:, None] * weight / weight.norm(dim=1, keepdim=True)
        return self.head("cluster", cls) @ rows.T

    def related(self, mean: Any, memory: Any) -> Any:
        """Return the relation block's output for a row among its nearest ones in the memory."""
        import torch
        from torch.nn import functional

        with torch.no_grad():
            cosine = functional.cosine_similarity(mean[:, None], memory[None], dim=-1)
            nearest = cosine.topk(int(self.model.schedule.meta["neighbours"]), dim=-1).indices
        return self._block(torch.cat([mean[:, None], memory[nearest]], dim=1), "relation/", 0)[:, 0]

    def _weight(self, name: str, layer: int = 0) -> Any:
        return self.model.by_key[self.prefix + name, layer]

    def _linear(self, x: Any, module: str, layer: int = 0) -> Any:
        from torch.nn import functional

        bias = self.model.by_key.get((f"{self.prefix}{module}.bias", layer))
        return functional.linear(x, self._weight(f"{module}.weight", layer), bias)

    def _norm(self, x: Any, module: str, layer: int = 0) -> Any:
        from torch.nn import functional

        scale, shift = self._weight(f"{module}.weight", layer), self._weight(f"{module}.bias", layer)
        return functional.layer_norm(x, x.shape[-1:], scale, shift, NORM_EPSILON)

    def _block(self, x: Any, prefix: str, layer: int) -> Any:
        """One transformer layer, of which every token sees all."""
        from torch.nn import functional

        heads = int(self.model.schedule.meta["heads"])
        qkv = self._linear(self._norm(x, f"{prefix}ln1", layer), f"{prefix}qkv", layer)
        query, key, value = (part.transpose(1, 2) for part in qkv.view(*x.shape[:2], heads, 3, -1).unbind(3))
        seen = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(x.shape)
        x = x + self._linear(seen, f"{prefix}dense", layer)
        inner = _gelu(self._linear(self._norm(x, f"{prefix}ln2", layer), f"{prefix}h_to_4h", layer))
        return x + self._linear(inner, f"{prefix}4h_to_h", layer)


def _gelu(x: Any) -> Any:
    from torch.nn import functional

    return functional.gelu(x, approximate="tanh")
