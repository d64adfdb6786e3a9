"""Reports of a study: the page that a person reads, the table and the manifest that a program reads."""

from simfrontier.report.manifest import write_manifest
from simfrontier.report.page import write_page
from simfrontier.report.table import write_results

__all__ = ["write_manifest", "write_page", "write_results"]
