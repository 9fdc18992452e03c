# The build output is outside the clone, so a new clone can reuse it.
export CARGO_TARGET_DIR ?= $(HOME)/.cache/facescan/target
# What `make run` builds, and what measurements build.
FACESCAN = $(CARGO_TARGET_DIR)/quick/facescan
RELEASE = $(CARGO_TARGET_DIR)/release/facescan
# The folder of libtorch. The default is the one that `scripts/setup --torch` fetches.
LIBTORCH ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/facescan/libtorch-2.13.0
# The linker reads LIBTORCH. The loader reads the other two variables.
WITH_TORCH = LIBTORCH=$(LIBTORCH) LD_LIBRARY_PATH=$(LIBTORCH)/lib DYLD_LIBRARY_PATH=$(LIBTORCH)/lib

# What is tested and checked beside the default features.
FEATURES = --features facescan/qdrant,facescan-bench/qdrant

.DEFAULT_GOAL := help
.PHONY: help run setup models build release test test-torch test-triton lint lint-torch deny advisories sbom wheel packages install doc docs-check contract fuzz accuracy bench bench-search drill containers

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: models ## fetch what is missing, build, and serve on 127.0.0.1:8080
	$(FACESCAN) serve

setup: ## fetch the pinned ONNX Runtime, the models and an example image into .runtime/
	scripts/setup

build: ## build with the profile quick, which compiles fast
	cargo build --profile quick --locked

release: setup ## build with the profile release, for measurements
	cargo build --release --locked -p facescan -p facescan-bench
	$(RELEASE) models prepare

# The download needs the network and the build needs the processor, so they run side by side.
models: ## fetch what is missing, build, and prepare the shipped models in .runtime/models/
	$(MAKE) -j2 setup build
	$(FACESCAN) models prepare

test: ## run all tests, with a temporary Postgres server
	scripts/setup --tests
	scripts/s3-server --install
	scripts/postgres run cargo test --locked --workspace --tests $(FEATURES)
	$(if $(FACESCAN_TESTDATA),scripts/postgres run cargo test --locked --workspace --test it $(FEATURES) -- --ignored --skip triton --skip qdrant)

test-torch: ## build with libtorch and run its tests; run `make test` first
	scripts/setup --tests --torch
	scripts/torchscript
	$(WITH_TORCH) cargo test --locked -p facescan -p facescan-inference -p facescan-pipeline --features facescan/torch --lib --test it -- torch golden_values graphs::

test-triton: ## test the remote backend with a Triton server (Linux x86-64, Python 3.11)
	scripts/setup --triton
	scripts/triton run cargo test --locked --test it kserve -- --include-ignored

lint-torch: ## run clippy on the build with libtorch
	scripts/setup --torch
	$(WITH_TORCH) cargo clippy --locked -p facescan -p facescan-inference -p facescan-pipeline --features facescan/torch --lib --tests -- -D warnings

lint: ## check the formatting, clippy, the layers, the crates, the pins, the Python programs, the container files, and the alert rules
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --locked --workspace --all-targets $(FEATURES) -- -D warnings
	cargo clippy --locked -p facescan --lib --no-default-features -- -D warnings
	scripts/check-layers
	scripts/check-crates
	bash -n scripts/postgres benches/pgvector .ci/run
	scripts/setup --lint
	scripts/check-python
	scripts/check-pins
	scripts/check-containers
	scripts/check-monitoring

deny: ## check the licenses, the duplicates and the sources of all crates
	scripts/check-crates

# Without access to GitHub, run: make advisories DATABASE=FOLDER
advisories: ## check all crates for known vulnerabilities; clones the RustSec database from GitHub
	scripts/check-crates --advisories $(if $(DATABASE),--database $(DATABASE))

# For an installation with more packages, run: make sbom SBOM=--cuda
sbom: ## write the software bill of materials to .runtime/sbom/facescan.cdx.json
	scripts/setup --sbom
	scripts/sbom $(SBOM)

# For another machine, run: make wheel WHEEL='--machine aarch64'
wheel: ## build the Python wheel in dist/; fetches maturin and Zig
	packaging/wheel $(WHEEL)

packages: wheel ## build the wheel, and npm and Debian packages with the same files, in dist/ (needs npm)
	packaging/others $$(ls -t dist/*.whl | head -n 1)

# For another place, run: make install PREFIX=$HOME/.local
PREFIX ?= /usr/local
install: ## build with the profile release, and install the program with its libraries, models and licenses under PREFIX
	scripts/setup --wheel
	FACESCAN_RUNTIME= cargo build --release --locked
	FACESCAN_RUNTIME=$(CURDIR)/.runtime $(RELEASE) models prepare
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/facescan/pictures
	install $(RELEASE) $(DESTDIR)$(PREFIX)/bin/facescan
	cp -R .runtime/onnxruntime .runtime/models .runtime/licenses $(if $(wildcard .runtime/plugins),.runtime/plugins) $(DESTDIR)$(PREFIX)/lib/facescan/
	cp LICENSE-MIT LICENSE-APACHE NOTICE $(DESTDIR)$(PREFIX)/lib/facescan/licenses/
	cp .runtime/pictures/astronaut.png $(DESTDIR)$(PREFIX)/lib/facescan/pictures/

contract: ## compare a debug server with its OpenAPI document, and generate clients from it (needs npm)
	scripts/setup
	cargo build --locked -p facescan --bin facescan
	$(CARGO_TARGET_DIR)/debug/facescan models prepare
	scripts/contract $(CARGO_TARGET_DIR)/debug/facescan

# For one target and more time, run: make fuzz TARGETS=decode SECONDS_EACH=600
SECONDS_EACH ?= 60
fuzz: ## fuzz what reads bytes from outside; SECONDS_EACH is the time for each target
	scripts/fuzz --seconds $(SECONDS_EACH) $(TARGETS)

doc: ## build the Rust documentation; a warning is an error
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --document-private-items $(FEATURES)

docs-check: models ## run every command of the README and docs/, and compare the answers
	scripts/check-docs $(FACESCAN)

accuracy: models ## measure LFW over HTTP, and its clustering; FACESCAN_LFW names it, or FACESCAN_TESTDATA the folder with lfw_fold1/
	scripts/accuracy $(FACESCAN)

# For one drill, run: make drill DRILL='load --rounds 5'
DRILL ?= all
drill: release ## kill workers, take Postgres and NATS away, and measure batches; takes two hours
	scripts/setup --tests
	scripts/postgres run scripts/drill $(DRILL)

# For one proof of images that exist, run: make containers CONTAINERS='cpu --built'
containers: ## build the container images with Docker and prove them (Linux); takes 40 minutes
	scripts/setup --tests
	scripts/containers $(CONTAINERS)

bench-search: release ## measure searches in up to 10,000,000 synthetic faces, in memory and by pgvector; needs 12 GB of disk and of memory
	scripts/setup --tests
	$(RELEASE)-bench search
	$(RELEASE)-bench search --faces 1000000 --dim 512
	$(RELEASE)-bench search --faces 10000000
	TEST_DATABASE_OPTIONS='-c shared_buffers=1GB -c maintenance_work_mem=1GB' \
		scripts/postgres run benches/pgvector $(RELEASE)-bench --faces 100000 --clients 1,8 --faces-of-person 4 --exact

# For more rounds, run: make bench BENCH='--rounds 7 --seconds 5'
bench: release ## compare this server with its bare models and its peers; results in .runtime/bench/
	scripts/setup --tests
	scripts/postgres run benches/run $(RELEASE) $(BENCH)
	benches/preprocess $(dir $(RELEASE))
