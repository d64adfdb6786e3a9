"""Architecture of Mugs pre-training (arXiv 2203.14415): a student and a teacher vision transformer, three heads and
queues, and the image crops and patches that they process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MugsArchitecture:
    """Architecture of a Mugs run.

    Source: sail-sg/mugs main.py, src/model.py, src/vision_transformer.py, src/multicropdataset.py.

    A sample is an image, seen as `global_crops` crops of `image` pixels a side by the teacher, as many others by the
    student, and `local_crops` of `small` pixels by the student alone, each cut into square patches of `patch` pixels of
    three colours. The three heads have projectors hidden-`projector`-`projector`-`bottleneck`; those of the instance
    and the local-group head are followed by a predictor `bottleneck`-`predictor`-`bottleneck` in the student; the group
    head ends in `prototypes`. Negatives and memories are queues of `queue` entries; `neighbours` of them join a query
    in the relation block. `trains_norms`: whether the lengths of the prototypes are trained, or stay 1.
    """

    name: str
    num_layers: int
    hidden: int
    heads: int
    source: str
    trains_norms: bool = True
    image: int = 224
    small: int = 96
    patch: int = 16
    global_crops: int = 2
    local_crops: int = 10
    projector: int = 2048
    bottleneck: int = 256
    predictor: int = 4096
    prototypes: int = 65536
    queue: int = 65536
    neighbours: int = 8

    @property
    def crops(self) -> int:
        """Number of crops of an image that the student processes."""
        return self.global_crops + self.local_crops

    @property
    def pairs(self) -> int:
        """Number of pairs of a teacher's crop and a student's crop of one image that are different views."""
        return self.global_crops * (self.crops - 1)

    @property
    def patch_features(self) -> int:
        """Number of input values of one patch."""
        return 3 * self.patch**2

    def num_patches(self, pixels: int) -> int:
        """Return the number of patches of a square crop of `pixels` pixels a side; the number of tokens is one
        larger."""
        return (pixels // self.patch) ** 2
