"""Settings of hypothesis and of the garbage collector, one run of the toy scenario for all tests, and golden texts,
which `--golden` rewrites, so that a review sees what changed."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from simfrontier.base.workers import Local, Workers
from tests.invoke import TOY, invoke

# How long an example takes says nothing on a busy box; tests of cost count what is done.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")
# Schedules are many objects and few cycles: looking often takes up to a tenth of the time.
gc.set_threshold(100_000, 20, 20)

GOLDEN = Path(__file__).parent / "golden"
Golden = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="rewrite the golden texts instead of comparing with them")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with the golden file of that name, or write it under `--golden`."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"{path} is missing; make golden writes it"
        assert text == path.read_text(encoding="utf-8"), f"differs from {path}; if it should, make golden rewrites it"

    return compare


@pytest.fixture(scope="session")
def toy_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a full run of the toy scenario: its tables, page, findings and traces, for all tests to read."""
    folder = tmp_path_factory.mktemp("toy")
    done = invoke("run", TOY, "--out", folder)
    assert done.code == 0, done
    return folder


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Workers]:
    """Two worker processes, as commands with `--jobs 2` have them."""
    with Workers(Local(jobs=2)) as workers:
        yield workers
