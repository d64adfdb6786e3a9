"""AxoNN's analytical model on a scenario: its model, batch, machine and table `tune`, and the grids in order."""

from __future__ import annotations

from dataclasses import dataclass

from simfrontier.base.errors import InputError, SimfrontierError
from simfrontier.core.workload import GptShape
from simfrontier.inputs.scenario import GridJob
from simfrontier_extras.axonn_model.bandwidth import Bandwidths, load_bandwidths
from simfrontier_extras.axonn_model.ranking import Ranked, ranked
from simfrontier_extras.axonn_model.transformer import Transformer, transformer_of
from simfrontier_extras.axonn_model.tune_keys import AxonnKeys
from simfrontier_extras.axonn_model.versions import VersionName


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRanking:
    """All grids of a scenario at one size, best first, and what they were ranked for; `batch` is sequences of a step
    over all devices."""

    title: str
    model: str
    devices: int
    batch: int
    transformer: Transformer
    bandwidths: Bandwidths
    quirk: bool
    grids: tuple[Ranked, ...]


def rank_grids(scenario: GridJob, version: VersionName, devices: int) -> GridRanking:
    """The grids of a scenario's model on that many devices, by predicted communication.

    Raises InputError where the model is no GPT, the version has no formula for it or no table for the machine;
    SimfrontierError where no grid is allowed. One line each, with the scenario's file.
    """
    table, training, shape = scenario.file.tune, scenario.file.training, scenario.shape
    assert isinstance(table, AxonnKeys)
    try:
        if not isinstance(shape, GptShape):
            raise InputError(f"model.name: got {scenario.file.model.name!r}, an MLP; allowed: a GPT")
        bandwidths = _bandwidths(scenario, table.bandwidth, version)
        transformer = transformer_of(shape, intermediate=table.intermediate, gqa=table.gqa, swiglu=table.swiglu)
        batch = training.batch or training.micro_batch * training.grad_accum * devices
        grids = ranked(
            bandwidths,
            transformer,
            devices,
            batch,
            min_tensor=table.min_tensor,
            quirk=table.quirk,
            accumulation=table.accumulation,
        )
    except SimfrontierError as error:
        raise type(error)(f"{scenario.where}: {error}") from None
    return GridRanking(
        title=scenario.file.title,
        model=shape.name,
        devices=devices,
        batch=batch,
        transformer=transformer,
        bandwidths=bandwidths,
        quirk=table.quirk,
        grids=grids,
    )


def _bandwidths(scenario: GridJob, machine: str | None, version: VersionName) -> Bandwidths:
    try:
        return load_bandwidths(version, machine or scenario.machine.name)
    except InputError as error:
        key = "machine.name" if machine is None else "tune.bandwidth"
        more = " (tune.bandwidth takes another machine's)" if machine is None else ""
        raise InputError(f"{key}: {error}{more}") from None
