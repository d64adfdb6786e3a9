# Targets of this repository; each does the set-up that it needs.
PYTHON ?= python3
JOBS ?= 2
BIN := .venv/bin
INSTALLED := .venv/.installed
INSTALLED_REAL := .venv/.installed-real
COMPILE := $(BIN)/python -m compileall -q simfrontier simfrontier_extras real tests
SCENARIO := scenarios/frontier-20b.toml
OUT := reports/frontier-20b
CROSSCHECK := reports/crosscheck
VALIDATE := reports/validate
GPU := reports/gpu
HTA := reports/hta
RANKS := 8
SEED := 0
INPUTS := 20000
SECONDS := 0
FUZZ_SEED :=
READERS :=
SAMPLE := 520
WRITE :=
BASELINE :=
REF := HEAD

# Bytecode is written even where a machine forbids it: without, each start takes 0.3 s longer.
export PYTHONDONTWRITEBYTECODE :=
# Several processes at once, each with threads of BLAS, fight for the cores.
test long extras golden mutation bench: export OMP_NUM_THREADS := 1
test long extras golden mutation bench: export OPENBLAS_NUM_THREADS := 1

.DEFAULT_GOAL := help
.PHONY: help setup setup-real compare validate accuracy crosscheck gpu test nightly long extras exhaustive mutation mutants mutated-schedules fuzz check same hta refit refit-calls bench golden docs picture browser clean

help::
	@echo "make setup       .venv with simfrontier and what its tests need"
	@echo "make setup-real  and torch, to execute schedules for real"
	@echo "make compare     the plans of $(SCENARIO) side by side: $(OUT)/index.html"
	@echo "make validate    the models held against every measured table: $(VALIDATE)/index.html"
	@echo "make accuracy    errors of left-out training runs by family, against the baseline's (two minutes; WRITE=1 keeps the runs, BASELINE=1 the errors)"
	@echo "make crosscheck  three plans simulated and run for real on this machine: $(CROSSCHECK)/index.html"
	@echo "make gpu         all that one GPU can show in eight minutes: $(GPU)/summary.json"
	@echo "make test        the tests (JOBS=$(JOBS) at once, a quarter of an hour)"
	@echo "make nightly     what takes hours, one after another: long, mutants, mutated-schedules, mutation, exhaustive, fuzz, extras"
	@echo "make long        the long tests: more ranks, steps and combinations, and the figures that the documentation quotes"
	@echo "make extras      the tests of the core in copies without one extra each, and without any (an hour)"
	@echo "make exhaustive  the search of tune held against every plan of seven spaces (some ten minutes)"
	@echo "make mutation    SAMPLE=$(SAMPLE) mutants of schedule, plan, network and simulation, by the tests that reach them (SEED=$(SEED))"
	@echo "make mutants     faults put into the executor, in every family, by the verdict of train (some twenty minutes)"
	@echo "make mutated-schedules  one stored fact of a schedule changed at a time: refused, or trained alike (SEED=$(SEED), half an hour)"
	@echo "make fuzz        $(INPUTS) changed files for the readers of the core (SECONDS=$(SECONDS), 0: until all are read; READERS='kineto inspector': these)"
	@echo "make docs        the documentation as a site: site/index.html"
	@echo "make picture     the picture of the README, drawn anew"
	@echo "make browser     the pages in a headless Chromium"
	@echo "make check       format, lint, types"
	@echo "make same        schedules, results, timelines and texts held against those of commit REF=$(REF) (five minutes)"
	@echo "make hta         simulated steps as traces, read by Holistic Trace Analysis: its figures and ours (minutes)"
	@echo "make refit       the numbers that are fitted to training steps, fitted anew (a minute)"
	@echo "make refit-calls the numbers of NCCL in one node, fitted anew, and left out by size, number of devices and device (two minutes)"
	@echo "make bench       how fast simfrontier itself is"
	@echo "make golden      rewrite the golden texts of the tests; review them with git diff"
	@echo "make clean       remove what was generated (.venv stays)"

setup: $(INSTALLED)

setup-real: $(INSTALLED_REAL)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "simfrontier needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Another one: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "$(PYTHON) has no working venv module. On Debian or Ubuntu: sudo apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,serve,sweep]'
	$(COMPILE)
	@touch $@

$(INSTALLED_REAL): $(INSTALLED)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,real,serve,sweep]'
	$(COMPILE)
	@touch $@

compare: setup
	$(BIN)/simfrontier compare $(SCENARIO) --out $(OUT)
	@echo "The page is $(OUT)/index.html"

# Exit code 1 if a table exceeds its stated bound.
validate: setup
	$(BIN)/simfrontier validate --out $(VALIDATE)

# Exit code 1 if the mean error of a machine, a source or a stack grew by a tenth, or a run is no longer predicted.
# WRITE=1 writes the left-out runs that intervals follow from, BASELINE=1 the errors that this compares with.
accuracy: setup
	$(BIN)/python -m tests.accuracy --jobs $(JOBS) $(if $(WRITE),--write) $(if $(BASELINE),--baseline)

# Measure this machine, simulate three plans on what was measured, run the same schedules on $(RANKS) gloo ranks with
# compute replaced by waits of the simulated length, and hold the two against each other.
crosscheck: setup-real
	@mkdir -p $(CROSSCHECK)
	$(BIN)/simfrontier-real measure --ranks $(RANKS) --out $(CROSSCHECK)/box.toml
	$(BIN)/simfrontier export scenarios/crosscheck.toml --set library.calibration=$(CROSSCHECK)/box.toml --out $(CROSSCHECK)/sim
	$(BIN)/simfrontier-real replay $(CROSSCHECK)/sim/schedule-*.json --ranks $(RANKS) --compute wait --waits $(CROSSCHECK)/sim --out $(CROSSCHECK)/real
	$(BIN)/simfrontier crosscheck $(CROSSCHECK)/sim $(CROSSCHECK)/real --out $(CROSSCHECK)

# Exit code 1 where a step does not pass, or there is no GPU. Without network, in an environment that has torch:
# PYTHONPATH=.:real python3 -m simfrontier_real gpu. What was measured stays: `make clean` leaves it.
gpu: setup-real
	$(BIN)/simfrontier-real gpu --out $(GPU)

test: setup-real
	$(BIN)/python -m pytest -n $(JOBS)

# With `make -k nightly` the others go on where one fails.
nightly: long mutants mutated-schedules mutation exhaustive fuzz extras

long: setup-real
	$(BIN)/python -m pytest -n $(JOBS) -m long

# One after another: each runs the tests of the core on $(JOBS) cores.
extras: setup-real
	$(BIN)/python -m pytest -m deletion tests/test_extras.py

# Exit code 1 where a schedule passes the check and then trains differently or not at all.
mutated-schedules: setup-real
	$(BIN)/python -m tests.mutated --seed $(SEED)

exhaustive: setup
	$(BIN)/python -m tests.answers.search.exhaustive

# The list of mutants that no test sees is kept in reports/mutation; what is done on another day with the same SEED is the same.
mutation: setup-real
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,real,serve,sweep,mutation]'
	$(BIN)/python -m tests.mutation --sample $(SAMPLE) --seed $(SEED)

# Exit code 1 where a fault that is larger than what codecs lose passes; it is said which.
mutants: setup-real
	$(BIN)/python -m tests.real.mutation

# Exit code 1: an input hung or took too much memory, or more than one of 1,000 ended in an unforeseen error; those are
# kept in reports/fuzz.
fuzz: setup-real
	$(BIN)/python -m tests.fuzz --count $(INPUTS) --seconds $(SECONDS) --jobs $(JOBS) $(if $(FUZZ_SEED),--seed $(FUZZ_SEED)) $(if $(READERS),--reader $(READERS))

check: setup-real
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy --strict simfrontier simfrontier_extras real/simfrontier_real

# Exit code 1 where anything differs; it is said what. Both commits run at once, so their CPU seconds are under the same load.
same: setup
	$(BIN)/python -m tests.same $(REF)

# Exit code 1 where its figures and ours lie apart. HTA has an environment of its own: it asks for older libraries.
hta: setup
	$(BIN)/python -m tests.hta_figures write $(HTA)
	test -x .venv-hta/bin/python || $(PYTHON) -m venv .venv-hta
	.venv-hta/bin/python -m pip install --quiet 'traceinsight==0.6.1' 'pandas<3'
	.venv-hta/bin/python tests/hta_figures.py read $(HTA)

refit: setup
	$(BIN)/python -m tests.refit

refit-calls: setup
	$(BIN)/python -m tests.refit_calls

bench: setup-real
	$(BIN)/python -m tests.bench

golden: setup-real
	$(BIN)/python -m pytest -n $(JOBS) -m 'not deletion' --golden tests/core/plan tests/core/program tests/test_documented_figures.py tests/test_documented_accuracy.py simfrontier_extras

# The site, with the tutorial executed and all links checked.
docs: setup-real
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,real,serve,sweep,docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "The documentation is site/index.html"

# The picture of the README, drawn anew.
picture: setup
	$(BIN)/python docs/picture.py

# Needs a Chromium (Debian: apt-get install chromium).
browser: setup
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,serve,sweep,browser]'
	$(BIN)/python -m pytest tests/browser

clean::
	rm -rf build site *.egg-info real/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis $(OUT) $(CROSSCHECK) $(VALIDATE) $(HTA)
	find simfrontier simfrontier_extras real tests -name __pycache__ -type d -prune -exec rm -rf {} +

# What extras add: targets of their own, and lines of help and clean.
-include $(sort $(wildcard simfrontier_extras/*/Makefile))
