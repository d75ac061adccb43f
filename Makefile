# Every command of this repository. `make` alone lists them.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
# set in many images: every process would compile all of its modules anew
unexport PYTHONDONTWRITEBYTECODE

# not PYTHON: that one is the user's, `PYTHON=python3.13 make setup`
VENV_PYTHON := .venv/bin/python
# after so many seconds in one test its process ends with the stacks of its threads: a build names what hangs
HANGS_AFTER := 1800
PYTEST = $(VENV_PYTHON) -m pytest -o faulthandler_timeout=$(HANGS_AFTER) -o faulthandler_exit_on_timeout=true
PARTS := -n 4 --dist loadgroup --no-loadscope-reorder --max-worker-restart 0
ARGS ?=
WITH ?=
ENGINES ?=
PROJECT ?=
DESTINATION ?=
# over how many days `make test-long` spreads its repeats, walks, guards and failures; 1: all of them in each run
DAYS ?= 14

BEGUN := $(shell date +%s)

# which tests of contract, integration and e2e: those marked `repeats` are left to `make test-long`
TESTS := not long

.PHONY: help setup test-setup up down demo test test-fast test-long ready checks lint types unit contract integration servers e2e \
	test-crash live-long busy-long test-soak test-night test-engines test-mutations test-pythons bench docs wheel sbom lock clean soak verify-bigquery

help:  ## this list
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup:  ## Python environment and jars; minutes the first time; PYTHON=python3.13 chooses and keeps it, WITH="bigquery celery registry rest s3" adds what those servers need
	@bash local/setup.sh $(filter bigquery celery registry rest s3,$(WITH))

up: setup  ## start Kafka and the Spark Connect server; WITH="airflow bigquery brokers celery postgres rabbitmq registry rest s3 schedulers secure" adds any of those
	@$(VENV_PYTHON) -m local up --with "$(WITH)"

down:  ## stop what `make up` started
	@if [ -x $(VENV_PYTHON) ]; then $(VENV_PYTHON) -m local down; else echo "down: nothing was up"; fi

demo: WITH := $(DESTINATION)
demo: setup  ## a small shop's change events, live, until Ctrl-C; ARGS=--once stops after the verdict, DESTINATION=bigquery, WITH="rest s3 postgres brokers secure"
	@$(VENV_PYTHON) -m demo --destination $(or $(DESTINATION),iceberg) --with "$(WITH)" $(ARGS)

test test-long test-night test-soak test-setup ready contract integration servers live: WITH := bigquery celery registry rest s3

test-setup: setup  ## what the tests need besides: PostgreSQL, Chromium, Debezium's jars, a JDK, openssl, Python 3.13; a line for each that is missing; TESTS=long for what only long tests need
	@PYTHONPATH=.:tests:plugins $(VENV_PYTHON) -m machine "$(TESTS)"

test: ready unit live  ## every hazard once, cheapest first; about 20 minutes on two cores

test-fast: lint  ## what starts no server: style and layers, then unit tests and types beside each other; about 3 minutes on two cores
	@bash local/beside.sh unit types

test-long: TESTS := long or not long
test-long: export SOAK_BATCHES ?= 50
test-long: export SOAK_FLUSHES ?= 200
test-long: export KEY_SECONDS ?= 60
test-long: export MERGE_SECONDS ?= 240
test-long: export STORE_OBJECTS ?= 20000
test-long: export SOAK_MINUTES ?= 17
test-long: export FAULTS ?= places
test-long: export WALKS ?= 20
test-long: export OUTAGE_SECONDS ?= 300
test-long: export TIDEGATE_EXAMPLES = all
test-long: export TIDEGATE_DAYS = $(DAYS)
test-long: export TIDEGATE_DAY = $(shell echo $$(($$(date +%s) / 86400)))
test-long soak test-soak test-crash test-engines: HANGS_AFTER := 14400
test-long: ready unit live-long test-soak test-night  ## every quick test, and a fourteenth of all repeats, walks, guards and failures, another each day; DAYS=1: all; write the run into benchmarks/results/tests.md
	@echo "a row for benchmarks/results/tests.md: | $$(date -u +%F) | $$(git rev-parse --short HEAD) | $$((($$(date +%s) - $(BEGUN)) / 60)) | everything passed |"

ready: setup  # as the one waits for networks, and the other does not
	@bash local/beside.sh test-setup checks WITH="$(WITH)" TESTS="$(TESTS)"

checks: lint  ## style, layers and links; then static types and the manual beside each other, as each keeps one core busy
	@bash local/beside.sh types docs

lint: setup  ## style, layers and links
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@PYTHONPATH=plugins:jobs .venv/bin/lint-imports --no-cache --no-logo
	@PYTHONPATH=tests $(VENV_PYTHON) -m links

types: setup  ## static types, and names that are gone in tests, some of which run seldom
	@.venv/bin/mypy plugins jobs local demo benchmarks
	@.venv/bin/mypy --config-file tests/mypy.ini tests/crash tests/e2e tests/integration tests/night tests/soak

unit: setup  ## tests without servers, on all cores
	@PYTHONPATH=tests:plugins $(VENV_PYTHON) -m googlesql
	@$(PYTEST) tests/unit -n auto --dist worksteal --max-worker-restart 0 $(ARGS)

contract: setup  ## one behaviour suite over every implementation of a port
	@$(PYTEST) tests/contract -m "$(TESTS)" $(ARGS)

integration: setup  ## tests on a real broker, Spark and Iceberg, in four parts beside each other
	@$(PYTEST) tests/integration $(PARTS) -m "$(TESTS)" $(ARGS)

servers: setup  ## contract and integration tests on servers that they share
	@$(PYTEST) tests/contract tests/integration $(PARTS) -m "$(TESTS)" $(ARGS)

soak: setup  ## 500 small flushes on each catalog, 200 with random kills: nothing may be left behind, on disk or on the Spark server
	@SOAK_BATCHES=200 SOAK_FLUSHES=500 $(PYTEST) tests/integration/test_soak.py tests/integration/test_server_connections.py -s $(ARGS)

e2e: setup  ## one whole run under the real scheduler
	@$(PYTEST) tests/e2e -m "$(TESTS)" $(ARGS)

live: setup  ## servers and e2e beside each other, as each waits often; what e2e says comes last
	@bash local/beside.sh servers e2e TESTS="$(TESTS)" HANGS_AFTER=$(HANGS_AFTER)

test-crash: setup  ## every crash point with every fault on real components, then each place on lakes of servers; an hour, or FAULTS=places
	@$(PYTEST) tests/crash $(ARGS)

live-long: setup  # e2e waits for most of its time, the others for nothing
	@bash local/beside.sh busy-long e2e TESTS="$(TESTS)" HANGS_AFTER=$(HANGS_AFTER)

busy-long: servers test-crash test-mutations test-pythons

test-soak: export SOAK_MINUTES ?= 120
test-soak: test-setup  ## 50 pipelines on two catalogs, S3 and three guarded brokers, a fault each minute; SOAK_MINUTES=10, SOAK_FAULTS=none
	@$(PYTEST) tests/soak -s $(ARGS)

test-night: test-setup  ## 22 failures in a stack with Airflow: what the page says, its way out, what is left; writes benchmarks/results/failures.md; ARGS="kafka_dead" for some
	@PYTHONPATH=.:tests:plugins:jobs $(VENV_PYTHON) -m night $(ARGS)

test-engines: setup  ## Spark, PyIceberg, DuckDB, ClickHouse and Flink read tables of every mode; writes benchmarks/results/engines.md; ENGINES="duckdb flink" for some
	@PYTHONPATH=.:tests:plugins $(VENV_PYTHON) -m engines
	@TIDEGATE_ENGINES="$(ENGINES)" $(PYTEST) tests/integration/test_engines.py -s $(ARGS)

verify-bigquery: setup  ## the BigQuery suites against the service itself: PROJECT=my-project LOCATION=EU
	@PYTHONPATH=tests $(VENV_PYTHON) -m bigquery_service "$(PROJECT)" "$(LOCATION)" $(ARGS)

test-pythons: setup  ## unit tests in an environment of each other Python that the README names
	@PYTHONPATH=tests $(VENV_PYTHON) -m pythons

test-mutations: setup  ## switch each guard off and see its test fail; ARGS="part of a name"
	@PYTHONPATH=tests $(VENV_PYTHON) -m mutations $(ARGS)

docs: setup  ## the manual as a site, into dist/manual/html; a warning is an error
	@COLUMNS=84 NO_COLOR=1 PYTHONPATH=.:plugins .venv/bin/uv run -q --no-project --python .venv/bin/python \
		--with-requirements docs/site/requirements.txt python docs/site/build.py

wheel: setup  ## the package that pip installs, into dist/; two builds of one commit are equal byte by byte
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 1577836800) $(VENV_PYTHON) -m hatchling build -t wheel -d dist

sbom: setup  ## what a release carries, into dist/: sbom.json (CycloneDX) and third-party.md, the list of licences
	@PYTHONPATH= .venv/bin/uv run -q --no-project --python .venv/bin/python --with-requirements deploy/release/requirements.txt \
		python deploy/release/sbom.py .venv/bin/python dist

bench: setup  ## CPU, time and memory against hand-written peers
	@$(VENV_PYTHON) -m benchmarks $(ARGS)

lock: setup  ## pin every package of requirements.in again, and every jar of local/jars
	@.venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes requirements.in -o requirements.txt
	@.venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes local/lake/requirements.in -o local/lake/requirements.txt
	@.venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes deploy/release/requirements.in -o deploy/release/requirements.txt
	@.venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-deps -c requirements.txt \
		local/airflow/celery/requirements.in -o local/airflow/celery/requirements.txt
	@.venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-deps -c requirements.txt \
		tests/fab/requirements.in -o tests/fab/requirements.txt
	@.venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-deps \
		tests/engines/requirements.in -o tests/engines/requirements.txt
	@.venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-deps \
		tests/e2e/versions/requirements.in -o tests/e2e/versions/requirements.txt
	@for name in spark kafka rest s3 debezium; do bin/tidegate jars --from "local/jars/$$name" --write-lock; done

clean: down  ## remove the environment, the jars and everything that runs left behind
	@rm -rf .venv .cache .run .mypy_cache .pytest_cache .ruff_cache .hypothesis
