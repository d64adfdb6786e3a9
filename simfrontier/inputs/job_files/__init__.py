"""Configuration files of training jobs, of other programs, as scenarios: one module per format, each with a table of
its fields."""

from simfrontier.inputs.job_files.scenario import ImportedJob as ImportedJob, Wanted as Wanted, import_job as import_job
