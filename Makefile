# Every command of this repository. `make` alone lists them.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
# set in many images: every process would compile all of its modules anew
unexport PYTHONDONTWRITEBYTECODE

PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest
ARGS ?=
WITH ?=
PROJECT ?=
DESTINATION ?=

.PHONY: help setup up down demo test lint types unit contract integration e2e test-crash test-mutations bench lock clean soak verify-bigquery

help:  ## this list
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup:  ## Python environment and jars; the first time takes minutes, then a moment; WITH=bigquery adds its local server
	@bash local/setup.sh $(filter bigquery,$(WITH))

up: setup  ## start Kafka and the Spark Connect server; WITH="airflow bigquery" adds those
	@$(PYTHON) -m local up --with "$(WITH)"

down:  ## stop what `make up` started
	@if [ -x $(PYTHON) ]; then $(PYTHON) -m local down; else echo "down: nothing was up"; fi

demo: WITH := $(DESTINATION)
demo: setup  ## a small shop's change events, live, until Ctrl-C; ARGS=--once stops after the verdict, DESTINATION=bigquery
	@$(PYTHON) -m demo --destination $(or $(DESTINATION),iceberg) $(ARGS)

test contract integration: WITH := bigquery

test: setup lint types unit contract integration e2e  ## everything that has to pass, cheapest first

lint: setup  ## style and layers
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .

types: setup  ## static types
	@.venv/bin/mypy plugins jobs local demo benchmarks

unit: setup  ## tests without servers, on all cores
	@$(PYTEST) tests/unit -n auto --dist worksteal $(ARGS)

contract: setup  ## one behaviour suite over every implementation of a port
	@$(PYTEST) tests/contract $(ARGS)

integration: setup  ## tests on a real broker, Spark and Iceberg, in two halves beside each other
	@$(PYTEST) tests/integration -n 2 --dist loadfile $(ARGS)

soak: setup  ## 200 small batches with random kills on the real parts, and without; nothing may be left behind
	@SOAK_BATCHES=200 $(PYTEST) tests/integration/test_soak.py tests/integration/test_server_connections.py -s $(ARGS)

e2e: setup  ## one whole run under the real scheduler
	@$(PYTEST) tests/e2e $(ARGS)

test-crash: setup  ## every crash point with every fault on real components; half an hour
	@$(PYTEST) tests/crash $(ARGS)

verify-bigquery: setup  ## the BigQuery suites against the service itself: PROJECT=my-project
	@PYTHONPATH=tests $(PYTHON) -m bigquery_service "$(PROJECT)" $(ARGS)

test-mutations: setup  ## switch each guard off and see its test fail; ARGS="part of a name"
	@PYTHONPATH=tests $(PYTHON) -m mutations $(ARGS)

bench: setup  ## CPU, time and memory against hand-written peers
	@$(PYTHON) -m benchmarks $(ARGS)

lock: setup  ## pin every package of requirements.in again
	@.venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes requirements.in -o requirements.txt

clean: down  ## remove the environment, the jars and everything that runs left behind
	@rm -rf .venv .cache .run .mypy_cache .pytest_cache .ruff_cache .hypothesis
