"""Scenarios from configuration files of training jobs, in Python."""

from __future__ import annotations

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
    plans: str | None = None,
    settings: given.Settings | None = None,
    out: str | Path | None = None,
) -> Scenario:
    """Return the scenario of one training job, from configuration files of other programs: `config.json` of Hugging
    Face, arguments of Megatron-LM (script, log or dump), YAML of NeMo, Megatron-Bridge or GPT-NeoX, TOML of torchtitan,
    JSON of DeepSpeed.

    `devices` or `nodes`: the size of the job, if the files do not say it. `plans`: plans in words instead of the
    files', such as "zero3; tp 8 pp 2". `settings` (dotted key → value) override the files. `out`: the file to write the
    scenario to, with comments on where each value comes from, what is assumed and what is not modelled. Raises
    InputError for a file of no known format, for files that contradict each other, and where a value is missing.

    >>> compare(import_job("config.json", "ds_config.json", nodes=16))
    """
    paths = [
        given.path(file, "import_job", 'paths of files, e.g. import_job("config.json", nodes=16)') for file in files
    ]
    if not paths:
        raise InputError('got no file; allowed: import_job("config.json", nodes=16)', where="import_job")
    wanted = Wanted(
        machine=machine,
        devices=given.size(devices),
        nodes=None if nodes is None else given.count("nodes", nodes),
        plans=plans,
        settings=given.settings(settings or {}),
    )
    job = job_of(paths, wanted)
    if out is not None:
        write_whole(Path(out), job.text)
    return job.scenario
