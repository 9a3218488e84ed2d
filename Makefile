# Everything a person does with this repository. `make help` lists it.
#
# Only Python 3.11 or later is needed. The environment comes from requirements.lock and is made again
# when the lock changes. UV=uv installs with uv, where that is there.

PYTHON ?= python3
VENV ?= .venv
UV ?=
ARGS ?=
# Processes that run the tests, each on services of its own: one mostly waits for real processes.
WORKERS ?= 4

PY := $(VENV)/bin/python
MANAGE := $(PY) manage.py
INSTALLED := $(VENV)/installed
# Some machines cap versions for pip; the lock has decided already.
PIP := PIP_CONSTRAINT=/dev/null PIP_DISABLE_PIP_VERSION_CHECK=1 $(PY) -m pip --quiet install
INSTALL := $(if $(UV),$(UV) pip install --quiet --compile-bytecode --python $(PY),$(PIP))
# Everything here starts many processes, and one that finds no bytecode takes twice as long to start.
unexport PYTHONDONTWRITEBYTECODE
# Tests run on services of their own, which end with the command.
WITH_SERVICES := $(PY) -m bettercompute.embedded.run_with --
PYTEST := $(WITH_SERVICES) $(PY) -m pytest
PACKAGES := bettercompute reservations pools nodes outbox
# What is generated is judged by tests: `generated` runs those alone.
CHECKS := lint types imports sql-now rules test

.DEFAULT_GOAL := help
.PHONY: help setup up test test-fast test-long torture model simulate planes faults guards lint format golden types imports sql-now rules \
	generate examples generated fuzz check bench seed lock clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## Make the environment from the lock file
	@:

up: setup ## Run everything here: PORT, GATEWAY_PORT, BETTERCOMPUTE_DATA, SIM configure it
	@exec $(PY) -m bettercompute.embedded.up

test: setup ## The test suite on services of its own; ARGS="-k lease" picks, WORKERS=1 in one process
	@exec $(PY) -m bettercompute.embedded.run_with --copies $(WORKERS) -- \
		$(PY) -m pytest -n auto $(ARGS)

test-fast: setup ## Tests that need no database
	@exec $(PY) -m pytest tests/unit $(ARGS)

test-long: setup ## The tests that `make test` leaves out: each takes a minute, or repeats another
	@exec $(PYTEST) -m long $(ARGS)

torture: setup ## The capacity torture test (C16); SEED, OPS, SECONDS make it another or longer
	@exec $(PYTEST) tests/concurrency -k torture -s $(ARGS)

model: setup ## Reservations against a model of the documents; EXAMPLES, STEPS, SEED make it larger
	@exec env EXAMPLES=$(or $(EXAMPLES),100) STEPS=$(or $(STEPS),50) SEED=$(or $(SEED),1) \
		$(PYTEST) tests/integration/reservations/test_model.py -n 0 -s $(ARGS)

simulate: setup ## The seeded simulation; SEED, STEPS, or SEEDS=1000 JOBS=2 for a range of seeds
	@exec $(PY) -m tests.simulation $(ARGS)

planes: setup ## Two control planes, either killed at random (C35); SECONDS, SEED
	@exec env $(foreach name,SEED SECONDS,$(if $($(name)),$(name)=$($(name)))) \
		$(PY) -m pytest -m long tests/faults/deployment/test_two_planes.py $(ARGS)

faults: setup ## Faults at random on real processes; SECONDS, SEED
	@exec env DJANGO_SETTINGS_MODULE=tests.settings \
		$(foreach name,SEED SECONDS,$(if $($(name)),$(name)=$($(name)))) \
		$(PY) -m tests.support.deployment.at_random

fuzz: setup ## schemathesis over the API, all phases, on real processes; SECONDS, SEED, PHASES
	@exec env DJANGO_SETTINGS_MODULE=tests.settings \
		$(foreach name,SECONDS SEED PHASES,$(if $($(name)),$(name)=$($(name)))) \
		$(PY) -m tests.support.fuzz

lint: setup ## Style: ruff and templates
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m djlint --lint --quiet --profile=django --ignore=H015,H025 templates

format: setup ## Format the code
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

golden: setup ## Write down anew what each command prints
	@exec env GOLDEN=write $(PYTEST) -n 0 -q tests/integration/cli/test_golden.py

types: setup ## mypy
	$(PY) -m mypy $(PACKAGES)

imports: setup ## Which package may import which
	$(VENV)/bin/lint-imports

sql-now: setup ## No SQL reads the database's own clock (C6)
	$(PY) scripts/check_sql_now.py

rules: setup ## Each rule with the tests that prove it
	$(PY) scripts/rules.py

guards: setup ## Break each consistency guard in a copy and see its tests fail; ARGS="C9 C12"
	@exec $(WITH_SERVICES) $(PY) scripts/break_guards.py $(ARGS)

generate: setup ## Write what is generated: docs/states.md, events.md, schema.sql
	DJANGO_SETTINGS_MODULE=tests.settings $(WITH_SERVICES) $(MANAGE) generate

examples: setup ## Record the examples of the OpenAPI document from real requests
	@exec env UPDATE_EXAMPLES=1 $(PYTEST) -n 0 tests/api/test_examples.py -k does_what

generated: setup ## Fail if something generated is stale
	@exec $(PYTEST) tests/architecture

check: setup ## Everything CI checks: runs all, then says what failed
	@failed=; for check in $(CHECKS); do \
		echo "== make $$check"; $(MAKE) --no-print-directory $$check || failed="$$failed $$check"; \
	done; \
	if [ -n "$$failed" ]; then echo "make check failed:$$failed" >&2; exit 1; fi

bench: setup ## Benchmarks, on services that keep their promises to disk
	@exec $(PY) -m benchmarks $(ARGS)

seed: setup ## Seed the database of DATABASE_URL with the demo
	$(MANAGE) seed

lock: ## Resolve the dependencies again; needs uv
	uv pip compile pyproject.toml --extra server --extra embedded --extra otel --group test --group lint \
		--group build --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --quiet --output-file requirements.lock

clean: ## Remove caches and the environment; data stays
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@echo "Installing what requirements.lock lists into $(VENV): about a minute the first time; nothing is printed until it is done."
	@test -x $(PY) || $(PYTHON) -m venv $(VENV) || { \
		echo "No virtual environment can be made: Debian and Ubuntu want 'apt-get install python3-venv'." >&2; \
		rm -rf $(VENV); exit 1; }
	@$(INSTALL) --no-deps --require-hashes -r requirements.lock
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@
