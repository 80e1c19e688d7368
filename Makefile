# Everything runs in a virtual environment of its own. Only Python 3.11+, pip and make are needed.
PYTHON ?= python3
# Otherwise each process of the tests would compile the modules again.
unexport PYTHONDONTWRITEBYTECODE
# Another interpreter, such as PYTHON=python3.13, has an environment of its own.
VENV ?= .venv$(if $(filter-out python3,$(PYTHON)),-$(notdir $(PYTHON)))
BIN = $(VENV)/bin
# worksteal gives the tests of a module to the same process, unless another process is idle.
PYTEST = $(BIN)/pytest --dist worksteal
PYTEST_ARGS ?=
BENCH_ARGS ?=
# The others, OpenStack's placement and nova, have an environment of their own: their pins clash with
# ours.
PEER ?= .venv-peer
PEER_PYTHON ?= python3
RACE_ROUNDS ?= 300
MINUTES ?= 30
# Of "make test": the lane of tests/lanes.py that it runs.
LANE = test
# Processes of "make test" and "make test-system".
WORKERS = 3
# Of "make test-all": the names of tests/run_parts.py, or all of them.
PARTS ?=
# Of "make nova-cloud".
SCHEDULER ?= placement-sched
# Of "make nova-cloud", and of the benchmarks, which each have a default of their own.
DATABASE ?=
ON_DATABASE = $(if $(DATABASE),--database $(DATABASE))

.DEFAULT_GOAL := help
.PHONY: help demo nova-cloud peer test-fast test test-system test-all test-only lint format bench docs release audit clean

# The text after ## on the line of a target is listed. A text that begins with "dev:" is for developers.
LIST = awk -F ':.*\#\# (dev: )?' '{printf "  %-16s %s\n", $$1, $$2}'

help: ## show this list
	@echo 'To use placement-sched:'
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | grep -v '## dev:' | sort -t: -k1,1 | $(LIST)
	@echo
	@echo 'To change it:'
	@grep -hE '^[a-z-]+:.*## dev:' $(MAKEFILE_LIST) | sort -t: -k1,1 | $(LIST)

# The variable of make that names the interpreter.
check_python = @$($(1)) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("$($(1)) is Python \
	%d.%d: set $(1) to Python 3.11 or newer (make $(1)=python3.11)" % sys.version_info[:2])'
# pip takes a while, without output.
INSTALLING = @echo 'installing dependencies into $(@D), about a minute'

$(VENV)/.run: setup.cfg pyproject.toml
	$(call check_python,PYTHON)
	$(INSTALLING)
	$(PYTHON) -m venv $(VENV)
	rm -rf placement_sched.egg-info # its entry points would hide new ones
	$(BIN)/pip install --quiet --editable '.[server]'
	@touch $@

$(VENV)/.develop: $(VENV)/.run
	$(INSTALLING)
	$(BIN)/pip install --quiet --editable '.[all,test,lint,docs]'
	@touch $@

$(PEER)/.ready: setup.cfg
	$(call check_python,PEER_PYTHON)
	$(INSTALLING)
	$(PEER_PYTHON) -m venv $(PEER)
	$(PEER_PYTHON) -c "import configparser; c = configparser.ConfigParser(); c.read('setup.cfg'); print(c['options.extras_require']['differential'])" > $(PEER)/requirements.txt
	$(PEER)/bin/pip install --quiet --requirement $(PEER)/requirements.txt
	@touch $@

demo: $(VENV)/.run ## watch a sample cloud of several hundred hosts being scheduled (CONSOLE=1: and look at it in a browser)
	@$(BIN)/placement-sched demo $(if $(CONSOLE),--console)

nova-cloud: $(VENV)/.develop $(PEER)/.ready ## try it with a real nova until Ctrl-C (SCHEDULER=nova DATABASE=postgresql)
	@$(BIN)/python -m tests.nova.cloud --scheduler $(SCHEDULER) --database $(or $(DATABASE),mysql)

test-fast: $(VENV)/.develop ## dev: run the tests without a database server or another process (1 to 2 minutes)
	$(PYTEST) --numprocesses 2 --lane fast $(PYTEST_ARGS)

test: $(VENV)/.develop ## dev: run the tests on SQLite, and on PostgreSQL and MariaDB if they depend on the database (5 to 10 minutes)
	$(PYTEST) --numprocesses $(WORKERS) --lane $(LANE) $(PYTEST_ARGS)

test-system: $(VENV)/.develop ## dev: run the tests with whole servers, several processes, or OpenStack's services (7 to 15 minutes)
	$(PYTEST) --numprocesses $(WORKERS) --lane system $(PYTEST_ARGS)

test-all: $(VENV)/.develop $(PEER)/.ready ## dev: run everything, chaos and all of nova's functional tests included (PARTS="chaos nova", 90 minutes to three hours)
	@PLACEMENT_SCHED_TEST_KEPT_REQUESTS=5000 $(BIN)/python -m tests.run_parts $(PARTS)

peer: $(PEER)/.ready ## dev: install OpenStack's placement and nova, so that the tests that compare with them run too

# The commands of "make test-only".
LONG_TESTS = chaos constraints differential explore galera gabbi loader mysql nova-functional peer-gabbi race screenshots soak
# Kill, cut, fill, overload and attack the service, and print a table (ONLY="kill disk").
RUN_chaos = $(BIN)/python -m tests.chaos $(if $(ONLY),--only $(ONLY))
# Run the fast tests, and the tests of SQL on every database, with the libraries of an OpenStack release (SQLAlchemy 2.0).
# ONLY=sql runs the fast tests of SQL alone. Older libraries have deprecation warnings, and anyio's pytest plugin fails.
CONSTRAINED = $(MAKE) --no-print-directory VENV=.venv-constraints PYTEST_ARGS='-p no:anyio -W ignore::DeprecationWarning
SQL_TESTS = tests/candidates tests/db tests/explain tests/store
RUN_constraints = export PIP_CONSTRAINT=$(CURDIR)/tests/constraints.txt; \
	$(CONSTRAINED) $(if $(ONLY),$(SQL_TESTS)) $(PYTEST_ARGS)' test-fast $(if $(ONLY),,&& $(CONSTRAINED) $(SQL_TESTS) $(PYTEST_ARGS)' test WORKERS=2)
# Send the same random requests to OpenStack's services and ours (COMPARISONS="nova pci" SEEDS="1 2" MANY=2000).
RUN_differential = $(BIN)/python -m tests.differential $(COMPARISONS) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(MANY),--many $(MANY))
# Run the property tests with five times as many random examples (SEED=1 or, by default, a random seed, which is printed).
RUN_explore = HYPOTHESIS_PROFILE=explore $(PYTEST) --numprocesses 2 -m property --timeout 3600 --hypothesis-seed $(or $(SEED),$(shell $(PYTHON) -c 'import random; print(random.randrange(10**9))')) $(PYTEST_ARGS)
# Run the tests on a cluster of three nodes of MariaDB, each race RACE_ROUNDS times. WHAT=chaos kills nodes.
RUN_galera = PLACEMENT_SCHED_REQUIRE_GALERA=1 PLACEMENT_SCHED_TEST_GALERA_ROUNDS=$(RACE_ROUNDS) $(BIN)/pytest --timeout 0 $(PYTEST_ARGS) tests/galera
# Run the gabbi files, in-process or against URL=http://host:port.
RUN_gabbi = $(BIN)/pytest tests/api/test_gabbits.py $(if $(URL),--url '$(URL)' -k over_http) $(PYTEST_ARGS)
# Run the tests of searches, explanations and APIs without the provider cache (ONLY=tests/candidates).
LOADER_TESTS = tests/candidates tests/explain tests/scheduler/explain tests/api
RUN_loader = $(PYTEST) --numprocesses $(WORKERS) --lane $(LANE) --loader $(PYTEST_ARGS) $(or $(ONLY),$(LOADER_TESTS))
# Run the tests of MariaDB on MySQL, which the first run installs into a folder (needs root and mmdebstrap).
RACES = tests/coexistence/test_races.py tests/coexistence/test_races_on_every_route.py tests/store/placement/test_allocations_race.py
ON_MYSQL = $(BIN)/python -m tests.db.mysql --dist worksteal --numprocesses 2 $(PYTEST_ARGS)
RUN_mysql = $(ON_MYSQL) --lane all -k 'mysql or collation or utf8' && $(ON_MYSQL) -k mysql $(RACES)
# Run nova's functional tests that exercise placement on ours (ONLY="test_scheduler test_vgpu" BESIDE=1).
RUN_nova-functional = $(BIN)/python -m tests.nova.functional $(ONLY) $(if $(BESIDE),--beside)
# Run the gabbi files of OpenStack's placement against placement-sched serve.
RUN_peer-gabbi = PLACEMENT_SCHED_REQUIRE_PEER=1 $(BIN)/pytest tests/coexistence/test_peer_gabbi.py $(PYTEST_ARGS)
# Claim whole providers from several processes at once, RACE_ROUNDS times.
RUN_race = PLACEMENT_SCHED_TEST_RACE_ROUNDS=$(RACE_ROUNDS) $(BIN)/pytest --timeout 0 $(PYTEST_ARGS) tests/store/placement/test_allocations_race.py
# Draw the pictures of the console in the guide again (needs chromium).
RUN_screenshots = PLACEMENT_SCHED_WRITE_SCREENSHOTS=1 $(BIN)/pytest tests/extensions/console/browser/test_screenshots.py
# Use a server for MINUTES=30. Its memory, descriptors and latency must stay flat.
RUN_soak = $(BIN)/python -m tests.chaos.soak --minutes $(MINUTES)

test-only: $(VENV)/.develop $(PEER)/.ready ## dev: run a long test, such as WHAT=chaos (without WHAT: list them)
	$(if $(RUN_$(WHAT)),$(RUN_$(WHAT)),@printf '  %s\n' $(foreach name,$(LONG_TESTS),'WHAT=$(name)'))

lint: $(VENV)/.develop ## dev: check style, types, layers and language
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.house.language
	$(BIN)/python -m tests.house.spdx

format: $(VENV)/.develop ## dev: let ruff correct the style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python -m tests.house.spdx --write

bench: $(VENV)/.develop $(PEER)/.ready ## dev: race OpenStack's services, as bench/README.md says (WHAT=writes DATABASE=mariadb QUICK=1)
	PYTHONPATH=. $(BIN)/python bench/$(or $(WHAT),candidates).py $(if $(QUICK),--quick) $(ON_DATABASE) $(BENCH_ARGS)

docs: $(VENV)/.develop ## build the API reference and the operator's guide
	$(BIN)/sphinx-build -W -q -b html doc/source doc/build
	$(BIN)/sphinx-build -W -q -b html api-ref/source doc/build/api-ref
	@echo 'the guide:         $(CURDIR)/doc/build/index.html'
	@echo 'the API reference: $(CURDIR)/doc/build/api-ref/index.html'

$(VENV)/.release: setup.cfg pyproject.toml
	$(call check_python,PYTHON)
	$(INSTALLING)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[release]'
	@touch $@

release: $(VENV)/.release ## dev: make the sdist and the wheel of a release in dist/
	@grep -q '^url = ' setup.cfg || echo 'setup.cfg has no url: the project is not yet published'
	$(BIN)/python -m build
	@ls dist

audit: $(VENV)/.develop $(if $(UPGRADE),$(VENV)/.release) ## dev: look for known vulnerabilities of deploy/requirements.txt (UPGRADE=1: write it again first)
	$(if $(UPGRADE),$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --extra server --extra postgresql --extra mysql --extra memcached --custom-compile-command 'make audit UPGRADE=1' --output-file deploy/requirements.txt setup.cfg)
	@$(BIN)/python -m tests.deploy.audit

clean: ## remove the virtual environment and everything built
	rm -rf .venv .venv-* $(VENV) $(PEER) build dist *.egg-info doc/build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
