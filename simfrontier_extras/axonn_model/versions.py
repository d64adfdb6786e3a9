"""The two versions of the model that were published."""

from typing import Final, Literal, get_args

VersionName = Literal["axonn-a", "axonn-b"]
VERSIONS: Final[tuple[VersionName, ...]] = get_args(VersionName)
