# Build output lives outside the clone, so that a fresh clone reuses it.
export CARGO_TARGET_DIR ?= $(HOME)/.cache/facescan/target
FACESCAN = $(CARGO_TARGET_DIR)/release/facescan
# Where `scripts/setup --torch` puts libtorch; another one is used if it is named.
LIBTORCH ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/facescan/libtorch-2.13.0
# The linker finds it by the first, the loader by the others.
WITH_TORCH = LIBTORCH=$(LIBTORCH) LD_LIBRARY_PATH=$(LIBTORCH)/lib DYLD_LIBRARY_PATH=$(LIBTORCH)/lib

.DEFAULT_GOAL := help
.PHONY: help run setup models build test test-torch test-triton lint lint-torch doc docs-check contract accuracy bench

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: models ## set up what is missing, build and serve on 127.0.0.1:8080
	$(FACESCAN) serve

setup: ## fetch the pinned ONNX Runtime, models and a picture into .runtime/
	scripts/setup

build: ## build in release
	cargo build --release --locked

models: setup build ## rewrite the shipped models into .runtime/models/
	$(FACESCAN) models prepare

test: ## run the whole suite, Postgres included
	scripts/setup --tests
	scripts/postgres run cargo test --locked --workspace --tests

test-torch: ## build with libtorch and test what concerns it; run `make test` before
	scripts/setup --tests --torch
	scripts/torchscript
	$(WITH_TORCH) cargo test --locked -p facescan -p facescan-inference --features facescan/torch --lib --test it -- torch golden_values

test-triton: ## test the remote backend against a Triton server (Linux x86-64, Python 3.11)
	scripts/setup --triton
	scripts/triton run cargo test --locked --test it kserve

lint-torch: ## clippy with libtorch
	scripts/setup --torch
	$(WITH_TORCH) cargo clippy --locked -p facescan -p facescan-inference --features facescan/torch --lib --tests -- -D warnings

lint: ## check the formatting, clippy, the layers, that the scripts parse, and the container files
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	scripts/check-layers
	bash -n scripts/postgres .ci/run
	python3 -c "import ast, sys; [ast.parse(open(path).read(), path) for path in sys.argv[1:]]" scripts/setup scripts/packages.py scripts/torchscript scripts/triton scripts/onnxfile.py scripts/check-containers scripts/check-docs scripts/check-layers scripts/contract scripts/contract_hooks.py scripts/docblocks.py scripts/accuracy scripts/references/*.py benches/run benches/preprocess benches/*/*.py
	scripts/setup --lint
	scripts/check-containers

contract: ## hold a debug server to its OpenAPI document, and generate clients from it (needs npm)
	scripts/setup
	cargo build --locked -p facescan --bin facescan
	$(CARGO_TARGET_DIR)/debug/facescan models prepare
	scripts/contract $(CARGO_TARGET_DIR)/debug/facescan

doc: ## build the documentation; a warning is an error
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --document-private-items

docs-check: models ## run every command of the README and docs/, and compare the answers with those shown
	scripts/check-docs $(FACESCAN)

accuracy: models ## measure LFW fold 1 over HTTP; FACESCAN_TESTDATA names the folder with lfw_fold1/
	scripts/accuracy $(FACESCAN)

# More rounds: make bench BENCH='--rounds 7 --seconds 15'
bench: models ## measure this server beside its models alone and beside its peers, into .runtime/bench/
	cargo build --release --locked -p facescan -p facescan-bench
	benches/run $(FACESCAN) $(BENCH)
	cargo bench --locked
