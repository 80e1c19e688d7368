# Everything runs in a virtual environment of its own; only Python 3.11+, pip and make are needed.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# worksteal gives the tests of a module to one process, as long as no other is idle.
PYTEST = $(BIN)/pytest --dist worksteal
PYTEST_ARGS ?=
BENCH_ARGS ?=
# The others, OpenStack's placement and nova, have an environment of their own: their pins clash with
# ours.
PEER ?= .venv-peer
RACE_ROUNDS ?= 300
MINUTES ?= 30
# Of "make test": the lane of tests/lanes.py that it runs, and its processes.
LANE = test
WORKERS = 3
# Of "make nova-cloud".
SCHEDULER ?= placement-sched
# Of "make nova-cloud", and of the benchmarks, which each have a default of their own.
DATABASE ?=
# Of "make release".
VERSION = $(shell sed -n 's/^version = //p' setup.cfg)
CHANGES = dist
ON_DATABASE = $(if $(DATABASE),--database $(DATABASE))

.DEFAULT_GOAL := help
.PHONY: help demo screenshots nova-cloud test test-fast test-system test-all gabbi peer peer-gabbi nova-functional differential race galera explore lint format bench bench-writes bench-scheduler bench-nova bench-nova-rpc bench-race bench-fleet bench-schedulers chaos soak docs release changelog requirements audit clean

# A target is listed by what follows ## on its line; one that begins with "dev:" is for developers.
LIST = awk -F ':.*\#\# (dev: )?' '{printf "  %-16s %s\n", $$1, $$2}'

help: ## show this list
	@echo 'To use placement_sched:'
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | grep -v '## dev:' | sort -t: -k1,1 | $(LIST)
	@echo
	@echo 'To change it:'
	@grep -hE '^[a-z-]+:.*## dev:' $(MAKEFILE_LIST) | sort -t: -k1,1 | $(LIST)

# What pip does takes a while, and pip says nothing of it.
INSTALLING = @echo 'installing dependencies into $(@D), about a minute'

$(VENV)/.run: setup.cfg pyproject.toml
	$(INSTALLING)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	@touch $@

$(VENV)/.develop: $(VENV)/.run
	$(INSTALLING)
	$(BIN)/pip install --quiet --editable '.[test,lint,docs]'
	@touch $@

$(VENV)/.bench: setup.cfg pyproject.toml
	$(INSTALLING)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[bench]'
	@touch $@

$(PEER)/.ready: setup.cfg
	$(INSTALLING)
	$(PYTHON) -m venv $(PEER)
	$(PYTHON) -c "import configparser; c = configparser.ConfigParser(); c.read('setup.cfg'); print(c['options.extras_require']['differential'])" > $(PEER)/requirements.txt
	$(PEER)/bin/pip install --quiet --requirement $(PEER)/requirements.txt
	@touch $@

demo: $(VENV)/.run ## watch a sample cloud of several hundred hosts being scheduled (CONSOLE=1: and look at it in a browser)
	@$(BIN)/placement-sched demo $(if $(CONSOLE),--console)

nova-cloud: $(VENV)/.develop $(PEER)/.ready ## try it with a real nova until Ctrl-C (SCHEDULER=nova DATABASE=postgresql)
	@$(BIN)/python -m tests.nova.cloud --scheduler $(SCHEDULER) --database $(or $(DATABASE),mysql)

test-fast: $(VENV)/.develop ## dev: run the tests without a database server or another process (90 seconds)
	$(PYTEST) --numprocesses 2 --lane fast $(PYTEST_ARGS)

test: $(VENV)/.develop ## dev: run the tests on SQLite, and on PostgreSQL and MariaDB if they depend on the database (8 minutes)
	$(PYTEST) --numprocesses $(WORKERS) --lane $(LANE) $(PYTEST_ARGS)

test-system: $(VENV)/.develop ## dev: run the tests with whole servers, several processes, or OpenStack's services (15 minutes)
	$(PYTEST) --numprocesses 2 --lane system $(PYTEST_ARGS)

test-all: $(VENV)/.develop $(PEER)/.ready ## dev: run everything, chaos and all of nova's functional tests included (60 minutes)
	@export PLACEMENT_SCHED_TEST_KEPT_REQUESTS=5000; status=0; \
	for part in 'test LANE=all WORKERS=4' chaos nova-functional 'soak MINUTES=3'; do \
		$(MAKE) --no-print-directory $$part || status=1; \
	done; exit $$status

screenshots: $(VENV)/.develop ## dev: draw the pictures of the console in the guide again (needs chromium)
	PLACEMENT_SCHED_WRITE_SCREENSHOTS=1 $(BIN)/pytest tests/console/browser/test_screenshots.py

gabbi: $(VENV)/.develop ## dev: run the gabbi tests, in-process or against URL=http://host:port
	$(BIN)/pytest tests/api/test_gabbits.py $(if $(URL),--url '$(URL)' -k over_http) $(PYTEST_ARGS)

peer: $(PEER)/.ready ## dev: install OpenStack's placement and nova, so that the tests beside them are run as well

peer-gabbi: $(VENV)/.develop $(PEER)/.ready ## dev: run the gabbi files of OpenStack's placement against placement-sched serve
	PLACEMENT_SCHED_REQUIRE_PEER=1 $(BIN)/pytest tests/coexistence/test_peer_gabbi.py $(PYTEST_ARGS)

nova-functional: $(VENV)/.develop $(PEER)/.ready ## dev: run nova's functional tests that exercise placement on ours (ONLY="test_scheduler test_vgpu" BESIDE=1)
	$(BIN)/python -m tests.nova.functional $(ONLY) $(if $(BESIDE),--beside)

differential: $(VENV)/.develop $(PEER)/.ready ## dev: send the same random requests to OpenStack's services and ours, and compare (COMPARISONS="nova pci" SEEDS="1 2" MANY=2000)
	$(BIN)/python -m tests.differential $(COMPARISONS) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(MANY),--many $(MANY))

race: $(VENV)/.develop ## dev: claim whole providers from several processes at once, RACE_ROUNDS times
	PLACEMENT_SCHED_TEST_RACE_ROUNDS=$(RACE_ROUNDS) $(BIN)/pytest --timeout 0 $(PYTEST_ARGS) tests/store/placement/test_allocations_race.py

galera: $(VENV)/.develop ## dev: run the tests on a cluster of three nodes of MariaDB, each race RACE_ROUNDS times
	PLACEMENT_SCHED_REQUIRE_GALERA=1 PLACEMENT_SCHED_TEST_GALERA_ROUNDS=$(RACE_ROUNDS) PLACEMENT_SCHED_TEST_GALERA_WRITES=2000 $(BIN)/pytest --timeout 0 $(PYTEST_ARGS) tests/galera

explore: $(VENV)/.develop ## dev: search with random examples for what the suite does not find (MINUTES=30 SEED=1)
	$(BIN)/python -m tests.exploring --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(PYTEST_ARGS)

chaos: $(VENV)/.develop $(PEER)/.ready ## dev: kill, cut, fill, overload and attack the service; print what was tried (ONLY="kill disk")
	$(BIN)/python -m tests.chaos $(if $(ONLY),--only $(ONLY))

soak: $(VENV)/.develop ## dev: use a server for MINUTES=30, and hold its memory, descriptors and latency flat
	$(BIN)/python -m tests.chaos.soak --minutes $(MINUTES)

lint: $(VENV)/.develop ## dev: check style, types, layers and language
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.house.language

format: $(VENV)/.develop ## dev: let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench ## dev: race openstack-placement (from PyPI) on PostgreSQL and MariaDB (QUICK=1 DATABASE=mariadb BENCH_ARGS="--only flat")
	$(BIN)/python bench/candidates.py $(if $(QUICK),--quick) $(ON_DATABASE) $(BENCH_ARGS)

bench-writes: $(VENV)/.develop ## dev: compare the speed of writes with openstack-placement
	$(BIN)/python bench/writes.py $(if $(QUICK),--quick) $(ON_DATABASE)

bench-scheduler: $(VENV)/.bench $(PEER)/.ready ## dev: race the choice of a host against openstack-placement and nova's filters and weighers
	$(BIN)/python bench/selecting.py $(if $(QUICK),--quick) $(ON_DATABASE)

bench-nova: $(VENV)/.develop $(PEER)/.ready ## dev: measure how long the databases of a nova take to read (QUICK=1)
	$(BIN)/python -m bench.nova_reading $(if $(QUICK),--quick)

bench-nova-rpc: $(VENV)/.develop $(PEER)/.ready ## dev: race an RPC select of a host against nova-scheduler (QUICK=1)
	$(BIN)/python -m bench.nova_rpc $(if $(QUICK),--quick)

bench-fleet: $(VENV)/.bench ## dev: race what a fleet of nova-computes sends, beside selections (QUICK=1 DATABASE=mariadb BENCH_ARGS="--hosts 2000")
	$(BIN)/python bench/fleet.py $(if $(QUICK),--quick) $(ON_DATABASE) $(BENCH_ARGS)

bench-schedulers: $(VENV)/.bench ## dev: let many schedulers fill one cloud (QUICK=1 DATABASE=mariadb BENCH_ARGS="--no-peer")
	$(BIN)/python bench/schedulers.py $(if $(QUICK),--quick) $(ON_DATABASE) $(BENCH_ARGS)

bench-race: $(VENV)/.develop $(PEER)/.ready ## dev: count over-allocations by concurrent claims of each service
	$(BIN)/python -m bench.race --rounds $(RACE_ROUNDS)

docs: $(VENV)/.develop ## build the API reference and the operator's guide
	$(BIN)/sphinx-build -W -q -b html doc/source doc/build
	$(BIN)/sphinx-build -W -q -b html api-ref/source doc/build/api-ref
	@echo 'the guide:         $(CURDIR)/doc/build/index.html'
	@echo 'the API reference: $(CURDIR)/doc/build/api-ref/index.html'

$(VENV)/.release: setup.cfg pyproject.toml
	$(INSTALLING)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[release]'
	@touch $@

release: $(VENV)/.release changelog ## dev: make the sdist, the wheel and CHANGELOG.rst of a release in dist/
	$(BIN)/python -m build
	@ls dist

# reno takes the versions from git's tags: in a copy, what no tag has yet gets the version of setup.cfg.
changelog: $(VENV)/.release ## dev: write the committed release notes to dist/CHANGELOG.rst, under their versions
	@mkdir -p $(CHANGES)
	rm -rf $(CHANGES)/copy && git clone --quiet . $(CHANGES)/copy
	git -C $(CHANGES)/copy tag --force $(VERSION)
	$(BIN)/reno --quiet report $(CHANGES)/copy --no-show-source --title 'Changes of placement_sched' --output $(CHANGES)/CHANGELOG.rst
	@rm -rf $(CHANGES)/copy

requirements: $(VENV)/.release ## dev: write the newest versions of what is deployed, with hashes, to deploy/requirements.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --custom-compile-command 'make requirements' --output-file deploy/requirements.txt setup.cfg

audit: $(VENV)/.develop ## dev: ask the package index for known vulnerabilities of deploy/requirements.txt
	@$(BIN)/python -m tests.deploy.audit

clean: ## remove the virtual environment and everything built
	rm -rf $(VENV) $(PEER) build dist *.egg-info doc/build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
