"""Extras: parts of simfrontier outside its core. Each folder is one extra, and may be deleted.

Folders of this package may also come from other distributions (docs/architecture.md).
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
