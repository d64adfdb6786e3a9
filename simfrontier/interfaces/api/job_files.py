"""Scenarios from configuration files of training jobs, in Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simfrontier.base.errors import InputError
from simfrontier.base.wholefile import write_whole
from simfrontier.inputs.job_files import Wanted, import_job as job_of
from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.api import given


def import_job(
    *files: str | Path,
    machine: str = "frontier",
    devices: int | None = None,
    nodes: int | None = None,
    plans: str | Sequence[str] | None = None,
    settings: given.Settings | None = None,
    out: str | Path | None = None,
) -> Scenario:
    """Return the scenario of one training job, from configuration files of other programs.

    Args:
        files: paths of `config.json` of Hugging Face, arguments of Megatron-LM (script, log or dump), YAML of NeMo,
            Megatron-Bridge or GPT-NeoX, TOML of torchtitan, JSON of DeepSpeed; several that complete each other.
        machine: name (`sf.machines()`), or path of a TOML file that describes yours.
        devices: number of devices (GPUs; GCDs, the halves of an MI250X), if the files do not say it.
        nodes: number of nodes, instead of `devices`.
        plans: plans in words instead of the files', such as "zero3; tp 8 pp 2".
        settings: values that override the files, by dotted key (`sf.keys()`).
        out: file to write the scenario to, with comments on where each value comes from, what is assumed and what is
            not modelled.

    Returns:
        A `Scenario` that the other functions take.

    Raises:
        InputError: for a file of no known format, for files that contradict each other, and where a value is missing.

    Example:
        >>> import simfrontier as sf
        >>> sf.compare(sf.import_job("config.json", "ds_config.json", nodes=16))
    """
    paths = [
        given.path(file, "import_job", 'paths of files, e.g. import_job("config.json", nodes=16)') for file in files
    ]
    if not paths:
        raise InputError('got no file; allowed: import_job("config.json", nodes=16)', where="import_job")
    size, count = given.size(devices), None if nodes is None else given.count("nodes", nodes)
    given.refuse_both(size, count)
    wanted = Wanted(
        machine=given.machine(machine),
        devices=size,
        nodes=count,
        plans=None if plans is None else "; ".join(given.names(plans)),
        settings=given.settings(settings or {}),
    )
    job = job_of(paths, wanted)
    if out is not None:
        write_whole(given.path(out, "out", "the path of a file"), job.text)
    return job.scenario
