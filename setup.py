"""What pyproject.toml cannot say: the wheel holds the scenarios of the repository as data of the package."""

from pathlib import Path
from shutil import copyfile

from setuptools import setup
from setuptools.command.build_py import build_py


class WithScenarios(build_py):
    """Copies scenarios/ into the package, except for an editable installation, which reads the repository."""

    def run(self) -> None:
        super().run()
        for path in [] if self.editable_mode else sorted(Path("scenarios").rglob("*.toml")):
            copied = Path(self.build_lib, "simfrontier", path)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copyfile(path, copied)


setup(cmdclass={"build_py": WithScenarios})
