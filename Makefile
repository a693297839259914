# A fresh machine with Python 3.11, git and make needs nothing else: each target sets up what it lacks.
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
KERNELS := $(VENV)/.kernels
# Images of containers often say that Python writes no bytecode: then every process, and every worker of Spark's, compiles
# all that it imports, for seconds.
export PYTHONDONTWRITEBYTECODE =
# Resolved when a recipe runs, so that `make format` and `make clean` need no Java.
WITH_JAVA = java_home=$$(tools/java) && JAVA_HOME="$$java_home"

.PHONY: demo serve city-watch market-archive stocks-and-reviews test test-long test-bounds lint kernels classes bench format clean

demo: $(READY)
	@$(WITH_JAVA) $(BIN)/penstock demo

# The service, with a small stock market that publishes to it: http://localhost:8400
serve: $(READY)
	@$(WITH_JAVA) $(BIN)/penstock serve --market $(ARGS)

city-watch: $(READY)
	@$(WITH_JAVA) $(BIN)/python -m examples.city_watch $(ARGS)

market-archive: $(READY)
	@$(WITH_JAVA) $(BIN)/python -m examples.market_archive $(ARGS)

stocks-and-reviews: $(READY)
	@$(WITH_JAVA) $(BIN)/python -m examples.stocks_and_reviews

# A group of tests (see tests/conftest.py) runs in one process, long groups first; lint and bounds checks beside them.
# Four processes for two cores: tests that wait for Spark, or for a clock, leave theirs to others.
PYTEST = $(BIN)/python -m pytest -n 4 --no-loadscope-reorder --durations=20
CHECKS = $(VENV)/checks.log
BESIDE = $(MAKE) --no-print-directory lint test-bounds ARGS=$(1) > $(CHECKS) 2>&1 & checks=$$!; code=0;
CLASSES_FIRST = $(MAKE) --no-print-directory classes || code=1;

test: $(READY) $(KERNELS)
	@$(call BESIDE,) $(CLASSES_FIRST) $(WITH_JAVA) $(PYTEST) $(ARGS) || code=1; \
	wait $$checks || code=1; cat $(CHECKS); exit $$code

# The same tests with larger numbers, from another seed each time: about an hour or two.
test-long: $(READY) $(KERNELS)
	@$(call BESIDE,"tests/views tests/language") $(CLASSES_FIRST) \
	$(WITH_JAVA) PENSTOCK_LONG=20 PENSTOCK_SEED=$$(date +%s) $(PYTEST) -o timeout=14400 $(ARGS) || code=1; \
	wait $$checks || code=1; cat $(CHECKS); exit $$code

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Compiled once, and not by every process of the tests: set-up has done it, unless a source has changed since.
kernels: $(READY)
	@$(BIN)/penstock warm-up
	@touch $(KERNELS)
$(KERNELS): $(READY) $(shell find src -name '*.py')
	@$(MAKE) --no-print-directory kernels

# What Spark loads, archived once: every Spark of the tests starts from it.
CLASSES := $(VENV)/spark.jsa
classes: $(CLASSES)
$(CLASSES): $(READY) tools/classes
	@$(WITH_JAVA) $(BIN)/python tools/classes $@

# Kernels that read outside data, compiled with bounds checks: a wrong index fails instead of reading what lies there.
# Compiled code is kept apart, since checks aren't part of what a cache goes by. ARGS: other tests than these few.
BOUNDS = tests/views/test_hostile_documents.py tests/language/test_texts_stand_alone.py tests/test_decimals.py \
	tests/matching/test_text_index.py
test-bounds: $(READY)
	@NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/$(VENV)/bounds $(BIN)/python -m pytest -q --no-header -n 0 $(or $(ARGS),$(BOUNDS))

# All of them, hours; or one: make bench ARGS="matching --workload ranges".
bench: $(READY)
	@$(WITH_JAVA) $(BIN)/python -m benchmarks $(or $(ARGS),all)

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis spark-warehouse metastore_db derby.log

# Made again only when a pin or the project file changes.
$(READY): requirements.lock pyproject.toml tools/venv
	@echo "Setting up $(VENV): a few minutes, once"
	@tools/venv $(VENV)
	@$(BIN)/penstock warm-up
	@touch $@ $(KERNELS)
