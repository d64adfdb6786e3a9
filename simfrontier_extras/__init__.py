"""Extras: what belongs to simfrontier and is no part of its core. Each folder is one, and may be deleted.

Folders of this package may also come from other distributions (docs/architecture.md)."""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
