"""The picture of the README: the plans of the main scenario on 8 to 384 GCDs (`make picture` draws it)."""

from __future__ import annotations

from pathlib import Path

import simfrontier as sf

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "frontier-20b.svg"


def picture() -> str:
    """The picture as text; the same scenario gives the same text."""
    return sf.compare(ROOT / "scenarios" / "frontier-20b.toml").to_svg() + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
