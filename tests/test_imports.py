"""Imports run one way: read from the syntax tree of every file, so that nothing has to be imported to check it."""

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "simfrontier"

# From the bottom up. A part may import parts of lower layers, and its neighbours unless they are strangers.
LAYERS = (
    ("limits", "not_modelled", "records"),
    ("arrays", "dtypes", "errors", "extras", "units"),
    ("io", "wholefile"),
    ("codecs", "workers"),
    ("machine", "schedule", "trace"),
    ("workload",),
    ("network", "stack", "topology"),  # links and rates; what an algorithm loads on them stands in the algorithm's file
    ("plan", "collectives"),
    ("measured",),
    ("cost",),
    ("simulation", "analysis"),
    ("scenario",),
    ("forecast", "study"),
    ("slowdown", "tuning", "explanation", "kineto"),
    ("experiments",),
    ("goodput", "sweep"),
    ("accuracy",),
    ("report",),
    ("api", "live", "cli"),
)
STRANGERS = next(layer for layer in LAYERS if "machine" in layer)
LEVEL = {part: level for level, layer in enumerate(LAYERS) for part in layer}
# Imported where they are used, never at the top of a module.
SLOW = ("dask", "distributed", "jinja2", "markupsafe", "optuna", "pandas", "plotly", "pyarrow", "scipy")
# What front doors offer to `import simfrontier` and to extras, whether or not anything here uses it.
PUBLIC: dict[str, set[str]] = {
    "analysis": {"Softmaxes"},
    "cli": {
        *("Plans", "Settings", "byte_sizes", "crosscheck_document"),
        *("load", "plain", "print_check", "print_json"),
    },
    "collectives": {"Meaning"},
    "explanation": {"explain"},
    "io": {"Line"},
    "machine": {"Device", "Matmul"},
    "measured": {"Line", "read_lines"},
    "network": {"box"},
    "report": {"CompressedPlan", "Section", "StudyView", "compressed_plans", "rows_csv"},
    "simulation": {"CallKey", "recipes_of"},
    "scenario": {"GridJob", "GridOrder", "ScenarioFile", "ScenarioKeys"},
    "schedule": {
        *("BACKWARD", "Needed", "UNKNOWN", "product"),
        *("KERNELS", "MemoryPasses", "ModelFacts", "ModelKind", "SweepCall", "Traffic"),
        *("every_operand", "picked_rows", "replaced_entries", "sweep"),
    },
    "workload": {"NEXT", "GraphBuilder", "Phase", "Stream", "here", "in_stream", "refuse_sizes", "without_cuts"},
    "trace": {"AddedCheck", "AddedCheckReader", "TracePaths", "compare"},
    "tuning": {"tune"},
}
EXTRAS = ROOT / "simfrontier_extras"
# Modules that extras may import beside the front doors: what sections of pages and verbs of real runs are made of.
FOR_EXTRAS = {f"simfrontier.report.{name}" for name in ("phrases", "render", "theme", "view")}
WITHOUT_CIRCLES = ("simfrontier", "simfrontier_extras", "simfrontier_real")
REAL_MAY_IMPORT = {
    "extras",
    "codecs",
    "dtypes",
    "io",
    "schedule",
    "workload",
    "trace",
    "collectives",
    "machine",
    "measured",
    "errors",
    "limits",
    "wholefile",
    "cli",
}


def part_of(path: Path) -> str:
    """simfrontier/machine/load.py and simfrontier/errors.py are in the parts machine and errors."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST, package: str) -> Iterator[str]:
    """Full dotted names that a file imports anywhere, relative ones resolved against its package."""
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            source = source_of(statement, package)
            if source == "simfrontier":
                yield from (f"{source}.{alias.name}" for alias in statement.names)
            else:
                yield source


def source_of(statement: ast.ImportFrom, package: str) -> str:
    """The module or package that is imported from, a relative one resolved against the package of the file."""
    above = package.split(".")[: len(package.split(".")) - statement.level + 1] if statement.level else []
    return ".".join([*above, *filter(None, [statement.module])])


def package_of(path: Path) -> str:
    """simfrontier/machine/load.py is in simfrontier.machine."""
    return ".".join(path.relative_to(ROOT).parent.parts)


def at_import(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run when a module is imported: not those in functions or under TYPE_CHECKING."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += ast.iter_child_nodes(node)


def fault(part: str, imported: str) -> str | None:
    """What is wrong with an import of `imported` from that part of simfrontier, if anything."""
    top, *rest = imported.split(".")
    if top in ("torch", "real", "simfrontier_real"):
        return f"{part} imports {imported}: only real does that"
    if top == "simpy" and part != "simulation":
        return f"{part} imports simpy: only simulation does that"
    if top != "simfrontier" or not rest or rest[0] in (part, "__version__"):
        return None
    other = rest[0]
    if other not in LEVEL:
        return f"{part} imports {imported}: no such part in LAYERS"
    if LEVEL[other] > LEVEL[part]:
        return f"{part} imports {other}, which is above it"
    if part in STRANGERS and other in STRANGERS:
        return f"{part} imports {other}: they are strangers"
    return None


def files() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def test_every_part_has_a_layer() -> None:
    assert {part_of(path) for path in files()} <= set(LEVEL) | {"__main__"}


def test_imports_run_one_way() -> None:
    faults = [
        f"{path.relative_to(ROOT)}: {said}"
        for path in files()
        for imported in imports(parsed(path), package_of(path))
        if part_of(path) != "__main__" and (said := fault(part_of(path), imported))
    ]
    assert faults == []


def test_neighbours_do_not_import_each_other_both_ways() -> None:
    pairs = {
        (part_of(path), imported.split(".")[1])
        for path in files()
        for imported in imports(parsed(path), package_of(path))
        if imported.startswith("simfrontier.")
    }
    assert [(a, b) for a, b in sorted(pairs) if a < b and (b, a) in pairs] == []


def test_slow_libraries_are_not_imported_at_the_top() -> None:
    slow = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in [*files(), *of_extras(), PACKAGE / "__init__.py"]
        if "real" not in path.parts
        for statement in at_import(parsed(path))
        for name in imports(statement, package_of(path))
        if name.split(".")[0] in SLOW
    ]
    assert slow == []


def test_there_is_one_way_to_do_many_things() -> None:
    """Only `workers` starts processes that work; of `concurrent.futures` others have the types of a call's result."""
    types = {("concurrent.futures", "Future"), ("concurrent.futures", "CancelledError")}
    pools = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in [*files(), *of_extras()]
        if not path.is_relative_to(PACKAGE / "workers") and "real" not in path.parts
        for name in (*imports(parsed(path), package_of(path)), *map(".".join, of_futures(parsed(path)) - types))
        if name.split(".")[0] in ("multiprocessing", "dask", "distributed") or name.startswith("concurrent.futures.")
    ]
    assert pools == []


def of_futures(tree: ast.Module) -> set[tuple[str, str]]:
    """What a file takes from `concurrent.futures`."""
    return {
        ("concurrent.futures", alias.name)
        for statement in ast.walk(tree)
        if isinstance(statement, ast.ImportFrom) and statement.module == "concurrent.futures"
        for alias in statement.names
    }


def test_real_imports_only_what_it_may() -> None:
    beyond = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / "real").rglob("*.py"))
        for name in imports(parsed(path), package_of(path))
        if name.startswith("simfrontier.") and name.split(".")[1] not in REAL_MAY_IMPORT
    ]
    assert beyond == []


@pytest.mark.parametrize(
    ("code", "parts"),
    [
        ("from simfrontier.machine import load_machine", ("pydantic", "numpy", "simfrontier.schedule")),
        (
            "from simfrontier.scenario import load_scenario\nload_scenario('scenarios/toy.toml')",
            ("numpy", "simfrontier.analysis", "simfrontier.measured", "simfrontier.network", "simfrontier.simulation"),
        ),
    ],
)
def test_reading_loads_what_it_needs(code: str, parts: tuple[str, ...]) -> None:
    program = f"import sys\n{code}\nprint([name for name in {parts} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("part", "code", "said"),
    [
        ("machine", "import simfrontier.network", "machine imports network, which is above it"),
        ("machine", "from simfrontier.schedule import mesh", "machine imports schedule: they are strangers"),
        ("machine", "from simfrontier import schedule", "machine imports schedule: they are strangers"),
        ("machine", "from ..plan import builder", "machine imports plan, which is above it"),
        ("machine", "def f():\n    import simfrontier.cli", "machine imports cli, which is above it"),
        ("network", "import simpy", "network imports simpy: only simulation does that"),
        ("plan", "import torch.distributed", "plan imports torch.distributed: only real does that"),
        ("plan", "from simfrontier.nowhere import x", "plan imports simfrontier.nowhere: no such part in LAYERS"),
        ("machine", "from .hardware import Machine\nimport simfrontier.errors", None),
        ("report", "from simfrontier import __version__", None),
        ("analysis", "import simfrontier.simulation", None),
    ],
)
def test_the_rule_itself(part: str, code: str, said: str | None) -> None:
    faults = [fault(part, name) for name in imports(ast.parse(code), f"simfrontier.{part}")]
    assert [text for text in faults if text] == ([said] if said else [])


def test_only_what_runs_at_import_counts_as_slow() -> None:
    code = """
import a
if TYPE_CHECKING:
    import no
else:
    import b
def f():
    import no
class C:
    import c
try:
    import d
except ImportError:
    import e
"""
    assert {name for statement in at_import(ast.parse(code)) for name in imports(statement, "")} == set("abcde")


# ── extras ──


def of_extras() -> list[Path]:
    """The product's files of all extras."""
    return sorted(path for path in EXTRAS.rglob("*.py") if "tests" not in path.parts)


def test_the_core_does_not_import_extras() -> None:
    core = [*files(), *sorted((ROOT / "real").rglob("*.py")), *sorted((ROOT / "tests").rglob("*.py"))]
    named = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in core
        for name in imports(parsed(path), package_of(path))
        if name.split(".")[0] == EXTRAS.name
    ]
    assert named == []


def test_extras_do_not_import_each_other() -> None:
    others = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in of_extras()
        for name in imports(parsed(path), package_of(path))
        if name.split(".")[0] == EXTRAS.name and name.split(".")[1] != path.relative_to(EXTRAS).parts[0]
    ]
    assert others == []


def test_only_the_real_part_of_an_extra_imports_the_real_half() -> None:
    beyond = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in of_extras()
        for name in imports(parsed(path), package_of(path))
        if name.split(".")[0] in ("torch", "simfrontier_real") or ".real" in name
        if path.relative_to(EXTRAS).parts[1] != "real"
    ]
    assert beyond == []


def test_extras_use_front_doors_and_what_is_meant_for_them() -> None:
    past = [
        f"{path.relative_to(ROOT)}: from {module} import {name}"
        for path in of_extras()
        for module, name in taken(path)
        if module.count(".") > 1 and module.split(".")[1] in packages() and module not in FOR_EXTRAS
    ]
    assert past == []


# ── front doors ──


def listed(package: str) -> dict[str, str]:
    """What a package offers to others: name → module of the package that has it, as its `__init__.pyi` says."""
    stub = PACKAGE / package / "__init__.pyi"
    return {
        alias.name: statement.module or ""
        for statement in parsed(stub).body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


def packages() -> list[str]:
    return sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


@cache
def taken(path: Path) -> tuple[tuple[str, str], ...]:
    """(module, name) of what a file takes from modules of simfrontier; the name is empty where it takes the module."""
    out = []
    for statement in ast.walk(parsed(path)):
        if isinstance(statement, ast.Import):
            out += [(alias.name, "") for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            source = source_of(statement, package_of(path))
            out += [(source, alias.name) for alias in statement.names]
    return tuple((module, name) for module, name in out if module.startswith("simfrontier."))


def product() -> list[Path]:
    return [*files(), *sorted((ROOT / "real").rglob("*.py"))]


def test_packages_are_used_through_their_front_doors() -> None:
    past = [
        f"{path.relative_to(ROOT)}: from {module} import {name}"
        for path in product()
        for module, name in taken(path)
        if module.count(".") > 1 and module.split(".")[1] in packages()
        if not path.is_relative_to(PACKAGE / module.split(".")[1])
    ]
    assert past == []


@pytest.mark.parametrize("package", packages())
def test_a_front_door_lists_what_is_there_and_used(package: str) -> None:
    used = {
        name
        for path in [*product(), *(ROOT / "tests").rglob("*.py"), PACKAGE / "__init__.pyi"]
        for module, name in taken(path)
        if module == f"simfrontier.{package}"
    }
    if package in PUBLIC:
        used |= PUBLIC[package]
    assert sorted(set(listed(package)) - used) == []
    front = importlib.import_module(f"simfrontier.{package}")
    for name, module in listed(package).items():
        owner = importlib.import_module(f"simfrontier.{package}.{module}") if module else None
        assert getattr(front, name) is (getattr(owner, name) if owner else sys.modules[f"simfrontier.{package}.{name}"])


@pytest.mark.parametrize("package", packages())
def test_no_module_has_the_name_of_what_its_package_offers(package: str) -> None:
    """Importing a module binds its name in the package, over what the front door has."""
    modules = {path.stem for path in (PACKAGE / package).glob("*.py")}
    assert sorted(name for name, module in listed(package).items() if module and name in modules) == []


# ── circles ──


def modules(tree: str) -> dict[str, Path]:
    """The files of a tree by their full dotted names; a package's `__init__.py` has the package's."""
    folder = ROOT / "real" if tree == "simfrontier_real" else ROOT
    names = {path: path.relative_to(folder).with_suffix("").parts for path in (folder / tree).rglob("*.py")}
    return {".".join(parts).removesuffix(".__init__"): path for path, parts in names.items()}


def home_of(source: str, name: str, known: Mapping[str, Path]) -> str | None:
    """The file that an import of a name reaches: the module itself, or through front doors the one that defines it."""
    if f"{source}.{name}" in known:
        return f"{source}.{name}"
    if source not in known:
        return None
    stub = known[source].with_suffix(".pyi")
    for statement in parsed(stub).body if stub.exists() else ():
        if isinstance(statement, ast.ImportFrom) and name in {alias.name for alias in statement.names}:
            return home_of(source_of(statement, source), name, known)
    return source


def files_imported(module: str, known: Mapping[str, Path]) -> set[str]:
    """The other files of the same tree that a file imports anywhere: in functions and for types, too."""
    path, reached = known[module], set[str | None]()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for statement in ast.walk(parsed(path)):
        if isinstance(statement, ast.Import):
            reached |= {alias.name for alias in statement.names if alias.name in known}
        elif isinstance(statement, ast.ImportFrom):
            source = source_of(statement, package)
            reached |= {home_of(source, alias.name, known) for alias in statement.names}
    return {file for file in reached if file is not None and file != module}


@pytest.mark.parametrize("tree", WITHOUT_CIRCLES)
def test_no_files_import_each_other_in_a_circle(tree: str) -> None:
    known = modules(tree)
    try:
        TopologicalSorter({module: files_imported(module, known) for module in known}).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))
