# `make help` lists all targets; `make run` and `make test` are enough to start.

PYTHON ?= python3
WEB ?= 127.0.0.1:8000
ARGS ?=
LANES ?=
BIN := .venv/bin
CHECKS := tests/test_quality.py tests/test_architecture.py tests/test_docs.py tests/test_requirements.py \
	tests/webhookhub/console/test_translations.py tests/webhookhub/upgrade/test_rules.py

.PHONY: help run demo demo-workflows check test test-all torture bench screenshots messages setup clean
.DEFAULT_GOAL := help

help:
	@echo "make run     set up and run the hub on its embedded database, with sample events (WEB=$(WEB))"
	@echo "make demo    publish and deliver sample events, print a summary, exit"
	@echo "make demo-workflows  run business workflows of seven services, some of which fail; print a table of results"
	@echo "make check   linters, types, architecture, docs, translations, migrations: under a minute"
	@echo "make test    set up and run the test suite: about eight minutes (ARGS='-k name' goes to pytest)"
	@echo "make test-all  run every test on every database, torture, mutants: under 90 minutes (LANES='torture partitions')"
	@echo "make torture kill processes at random for 90 s and check that nothing is lost (ARGS='--seconds 600 …')"
	@echo "make bench   set up and run the benchmark, about twelve minutes (ARGS='drain floor --quick' goes to it)"
	@echo "make screenshots  update the pictures in docs/ from a running hub"
	@echo "make messages     collect texts for translation and compile the translations"
	@echo "make setup   set up .venv only"
	@echo "make clean   remove .venv and all generated files, including data"

# exec: without a shell in between, a signal to make reaches the demo.
run: setup
	@exec $(BIN)/python -m tools.demo --stay --web $(WEB) $(ARGS)

demo: setup
	@exec $(BIN)/python -m tools.demo $(ARGS)

demo-workflows: setup
	@exec $(BIN)/python -m tools.demo.workflows $(ARGS)

check: .venv/.tests
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal $(CHECKS) $(ARGS)

# exec: without a shell in between, a signal to make reaches the tests.
test: .venv/.tests
	@exec $(BIN)/python -m tests $(ARGS)

test-all: .venv/.tests
	@exec $(BIN)/python -m tests.nightly $(LANES)

torture: .venv/.tests
	@exec $(BIN)/python -m tools.torture $(ARGS)

bench: .venv/.bench
	@mkdir -p var/bench
	@exec $(BIN)/python -m tools.bench --json var/bench/results.json --plots var/bench $(ARGS)

screenshots: .venv/.tests
	@exec $(BIN)/python -m tools.screenshots $(ARGS)

# Needs gettext (apt-get install gettext). Translate new texts in locale/ and run this again.
messages: setup
	@$(BIN)/python manage.py makemessages -l zh_Hant --no-location --no-obsolete --no-wrap \
		--ignore .venv --ignore tests --ignore tools --ignore var
	@$(BIN)/python manage.py compilemessages -l zh_Hant --ignore .venv

# The driver is checked on every run: its build packages, or a DATABASE_URL, may have been added since.
setup: .venv/.packages
	@./setup.sh driver

.venv/.packages: pyproject.toml setup.py constraints.txt
	@./setup.sh environment $(PYTHON)
	@touch $@

.venv/.tests: .venv/.packages
	@./setup.sh tests
	@touch $@

.venv/.bench: .venv/.packages
	@./setup.sh bench
	@touch $@

clean:
	rm -rf .venv var staticfiles build *.egg-info webhookhub/client/build webhookhub/client/*.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
