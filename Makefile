# Commands for newcomers: `make demo`, `make test`, `make test-all`. Each installs what it needs.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
PEERS := .venv-peers/installed
# With bytecode, since parties are processes; one thread a test, since tests run side by side.
PYTEST = PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist loadfile --durations 30

.PHONY: demo test test-all test-rest lint format-check types tests bench bench-peers house docs pictures proto format hooks clean

demo: $(INSTALLED)  ## three organisations train, forget and compare; a month later, customers ask to be forgotten
	rm -rf runs/demo
	$(BIN)/vfl demo

test: lint format-check  ## lint, format, types, the tests that need no second process, and one run of each mode
	+$(MAKE) --no-print-directory --jobs=2 types tests

test-all: lint format-check types  ## everything that CI runs, with the coverage of the tests
	$(PYTEST) --cov --cov-report=term:skip-covered

lint: $(INSTALLED)
	$(BIN)/ruff check .

format-check: $(INSTALLED)
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

tests: $(INSTALLED)
	$(PYTEST) -m "not slow or smoke"

test-rest: $(INSTALLED)  ## the tests that `make test` leaves out
	$(PYTEST) -m "slow and not smoke"

bench: $(INSTALLED)  ## measure the figures whose code has changed; ARGS=--all: all figures, ARGS=NAME: one section
	$(BIN)/python tests/bench $(ARGS)

bench-peers: $(INSTALLED) $(PEERS)  ## compare the intersection with SecretFlow's spu, which needs 1 GB of disk
	$(BIN)/python tests/bench peers

house: $(INSTALLED)  ## measure the structure of the code; writes docs/house.json
	$(BIN)/python tests/structure

docs: $(INSTALLED)  ## generate docs/configuration.md and docs/cli.md from the code, figures and the forgetting study on the pages from the records
	$(BIN)/python docs/generate.py

pictures: $(INSTALLED)  ## draw the other pictures of the pages from the records
	$(BIN)/python docs/pictures.py

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

hooks: $(INSTALLED)  ## look at every commit before it is made
	$(BIN)/pre-commit install

proto: $(INSTALLED)  ## generate protocol/vfl_pb2.* from protocol/vfl.proto
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. protocol/vfl.proto

clean:
	rm -rf .venv .venv-peers runs

$(INSTALLED): pyproject.toml constraints.txt parties/__init__.py
	@echo "installing into .venv: a minute or two, once"
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(INSTALLED)

# In an environment of its own: spu needs another NumPy and another protobuf than this project.
$(PEERS):
	@echo "installing spu into .venv-peers: a minute or two, once"
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip install --quiet --disable-pip-version-check spu==0.9.5
	touch $(PEERS)
