# Everything runs in .venv, which is made when missing and renewed when a pin changes.
SHELL := /bin/bash
PYTHON ?= python3.11
PORT ?= 3000
PY := .venv/bin/python
export BENTOML_DO_NOT_TRACK := True

.DEFAULT_GOAL := help
.PHONY: help serve train evaluate test soak bench check build clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 10

serve: .venv/installed  ## serve on http://127.0.0.1:$PORT (3000); the first time, install and train
	@$(PY) -m model_store.store || $(PY) train.py
	@exec $(PY) -m bentoml serve service:SeverityService --host 127.0.0.1 --port $(PORT)

train: .venv/installed  ## train and save both models to the BentoML store, whatever it holds
	$(PY) train.py

evaluate: .venv/installed  ## score DATA=file.csv, or the test part, with the served model
	@$(PY) -m model_store.store || $(PY) train.py
	@$(PY) evaluate.py $(DATA)

test: .venv/installed  ## run all tests but those of make soak
	$(PY) -m pytest

soak: .venv/installed  ## the long tests: load, faults, abuse (a quarter of an hour)
	$(PY) -m pytest -m soak -s

bench: .venv/installed benchmarks/.venv/installed  ## measure the service beside its peers; writes benchmarks/report.md
	@$(PY) -m model_store.store || $(PY) train.py
	@$(PY) -m benchmarks.bench

check: .venv/installed  ## check format, lint and types; changes nothing
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy .

build: .venv/installed  ## build the Bento; prints its tag and size
	@$(PY) -m model_store.store || $(PY) train.py
	@tag=$$($(PY) -m bentoml build --output tag | sed -n 's/^__tag__://p') && test -n "$$tag" && \
	echo "$$tag" && $(PY) -m bentoml list "$$tag"

clean:  ## remove the environment, reports and caches; the BentoML store stays
	rm -rf .venv benchmarks/.venv reports .mypy_cache .ruff_cache .pytest_cache .hypothesis .schemathesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/installed: requirements.txt requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo "Python 3.11 is needed; name one with make PYTHON=..."; exit 1; }
	$(PYTHON) -m venv .venv
	$(PY) -m pip install --disable-pip-version-check --progress-bar on -r requirements-dev.txt
	@touch $@

benchmarks/.venv/installed: benchmarks/requirements.txt
	$(PYTHON) -m venv benchmarks/.venv
	benchmarks/.venv/bin/python -m pip install --disable-pip-version-check --progress-bar on -r benchmarks/requirements.txt
	@touch $@
