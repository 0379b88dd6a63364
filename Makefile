# run: build the lab, alone if that will do, and do the main job. test: the tests that CI runs. test-long: all tests. bench: against peers. deps: the peers, from Debian.
# docs: build the site into target/site.
# bpf: compile the eBPF programs anew, to the same bytes. web: the pages, likewise.
# dist: a static binary in dist/, which runs on any Linux and in an empty container; with the licences of what is in it, and a
# bill of materials.
.PHONY: run unknown lab build dist test test-long lint docs deps bench bpf web fuzz clean

CARGO ?= cargo
SCENARIO ?= telemetry
# Also where cargo's own configuration names another.
export CARGO_TARGET_DIR ?= $(CURDIR)/target
OUT = "$$CARGO_TARGET_DIR"

# The lab alone takes a third of the time. A scenario that runs Weir's services needs all of it.
SERVICES := $(shell grep -ls '{weir}' scenarios/$(SCENARIO).toml '$(SCENARIO)')
KNOWN = $(wildcard scenarios/$(SCENARIO).toml $(SCENARIO))
run: $(if $(KNOWN),$(if $(SERVICES),build,lab),unknown)
	$(OUT)/$(if $(SERVICES),release,lab)/weir lab run $(SCENARIO) $(ARGS)

unknown:
	@echo "SCENARIO=$(SCENARIO): no such file; shipped are: $(notdir $(basename $(wildcard scenarios/*.toml)))"; exit 1

lab:
	$(CARGO) build --release --locked -p weir --no-default-features --features alone --bin weir-alone
	mkdir -p $(OUT)/lab && ln -f $(OUT)/release/weir-alone $(OUT)/lab/weir

build:
	$(CARGO) build --release --locked -p weir

# What is in C (ring) needs no C library: the machine's own compiler makes it, unless there is one for musl.
ARCH := $(shell uname -m)
MUSL = $(ARCH)-unknown-linux-musl
DIST = $(OUT)/$(MUSL)/dist/weir
HAS_MUSL = rustup target add $(MUSL) 2>/dev/null || [ -d "$$(rustc --print sysroot)/lib/rustlib/$(MUSL)" ]
CC_MUSL = CC_$(ARCH)_unknown_linux_musl
dist:
	@$(HAS_MUSL) || { echo "dist: needs the Rust target $(MUSL)"; exit 1; }
	$(CC_MUSL)="$${$(CC_MUSL):-$$(command -v $(ARCH)-linux-musl-gcc || echo cc)}" \
	    $(CARGO) build --profile dist --locked -p weir --target $(MUSL)
	mkdir -p dist
	cp $(DIST) deploy/container/Containerfile deploy/container/tee.toml dist/
	$(CARGO) run --quiet --locked -p notices -- dist $(MUSL)
	cd dist && sha256sum weir > weir.sha256 && cat weir.sha256

# Tests that draw at random print their seed; WEIR_SEED repeats one, for proptest's cases, too.
ifdef WEIR_SEED
export WEIR_SEED
export PROPTEST_RNG_SEED = $(WEIR_SEED)
endif

test: deps
	$(CARGO) test --locked --no-run
	@crates/testbed/test.sh

# Before a change of a room is called done: also what takes minutes, the static binary, containers, and what measures in release.
test-long: deps dist
	$(CARGO) test --locked --no-run
	@crates/testbed/test.sh --long
	$(CARGO) test --locked -p notices -p bench-sflow
	$(CARGO) test --release --locked --lib -- --include-ignored --test-threads=1 tests::cost::
	@[ "$$(id -u)" != 0 ] || .ci/tutorials dist/weir

# libFuzzer, which wants a C++ compiler, is only named: nothing is linked.
NO_LIBFUZZER = CUSTOM_LIBFUZZER_PATH=/nowhere/libfuzzer.a
lint:
	$(CARGO) fmt --all --check
	$(NO_LIBFUZZER) $(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(NO_LIBFUZZER) $(CARGO) clippy -p weir --no-default-features --features alone --bin weir-alone --locked -- -D warnings
	@! command -v python3 >/dev/null || .ci/docs

# What it needs is fetched once, into target/docs.
docs: target/docs/bin/mkdocs
	NO_MKDOCS_2_WARNING=1 target/docs/bin/mkdocs build --quiet

target/docs/bin/mkdocs: docs/requirements.txt
	python3 -m venv target/docs && target/docs/bin/pip install --quiet -r $<
	@touch $@

# Real peers that tests and benchmarks talk to; without the right to install, tests that miss one say so and are skipped.
# Those that would start services are not installed: peers.sh unpacks them below target/.
PEERS = iperf3:iperf3 nft:nftables python3:python3 pip3:python3-pip ip:iproute2 tc:iproute2 systemd-analyze:systemd buildah:buildah tcpdump:tcpdump node:nodejs npm:npm chromium:chromium
deps:
	@missing=""; for p in $(PEERS); do \
	    PATH=$$PATH:/usr/sbin command -v $${p%%:*} >/dev/null || missing="$$missing $${p##*:}"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	missing=$$(printf ' %s\n' $$missing | sort -u | tr -d '\n'); \
	if [ "$$(id -u)" = 0 ]; then sudo=""; elif sudo -n true 2>/dev/null; then sudo="sudo -n"; \
	else echo "deps: no right to install$$missing; tests that need them are skipped"; exit 0; fi; \
	if ! command -v apt-get >/dev/null; then echo "deps: install these for all tests:$$missing"; exit 0; fi; \
	$$sudo apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends $$missing >/dev/null || \
	    echo "deps: cannot install$$missing; tests that need them are skipped"
	@crates/testbed/peers.sh
	@crates/testbed/python.sh
	@! command -v npm >/dev/null || $(MAKE) --no-print-directory web/node_modules || \
	    echo "deps: cannot install what web/package.json names; tests of the pages are skipped"

bench: deps
	@crates/testbed/peers.sh nfacctd:pmacct:usr/sbin/nfacctd sfacctd:pmacct:usr/sbin/sfacctd \
	    socat:socat:usr/bin/socat influxd:influxdb:usr/bin/influxd
	$(CARGO) run --release --locked -p bench-emulator
	$(CARGO) run --release --locked -p bench-dgram
	$(CARGO) run --release --locked -p bench-tee
	$(CARGO) run --release --locked -p bench-loss
	$(CARGO) run --release --locked -p bench-sflow
	$(CARGO) run --release --locked -p bench-monitor
	$(CARGO) run --release --locked -p bench-protect
	$(CARGO) build --release --locked -p weir && $(CARGO) run --release --locked -p bench-lab

# Another major version of clang makes other bytes. Sources are named relative to the folder, so its place does not matter.
CLANG_MAJOR = 14
CLANG = $$(command -v clang-$(CLANG_MAJOR) || echo clang)
BPF_CFLAGS = -O2 -g -target bpf -mcpu=v3 -Wall -Wextra -Werror -fdebug-compilation-dir=. -ffile-prefix-map="$$PWD"=.
bpf:
	@if ! $(CLANG) -dumpversion 2>/dev/null | grep -q '^$(CLANG_MAJOR)\.'; then \
	    if [ "$$(id -u)" = 0 ]; then sudo=""; else sudo="sudo -n"; fi; \
	    $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	        $$sudo apt-get install -y -qq --no-install-recommends clang-$(CLANG_MAJOR) llvm-$(CLANG_MAJOR) >/dev/null; fi; \
	found=$$($(CLANG) -dumpversion) || { echo "bpf: needs clang $(CLANG_MAJOR)"; exit 1; }; \
	[ "$${found%%.*}" = $(CLANG_MAJOR) ] || \
	    echo "bpf: found clang $$found; the committed object was made by $(CLANG_MAJOR), its bytes will differ"
	cd crates/trace/bpf && for name in loss agent; do $(CLANG) $(BPF_CFLAGS) -c $$name.bpf.c -o $$name.bpf.o && \
	    $$(command -v llvm-strip-$(CLANG_MAJOR) || echo llvm-strip) -g $$name.bpf.o || exit 1; done

# Checks the pages' sources and builds them into the rooms that serve them. The lock pins every package.
web:
	@if ! command -v npm >/dev/null; then \
	    if [ "$$(id -u)" = 0 ]; then sudo=""; else sudo="sudo -n"; fi; \
	    $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	        $$sudo apt-get install -y -qq --no-install-recommends nodejs npm >/dev/null || \
	    { echo "web: needs node and npm"; exit 1; }; fi
	@$(MAKE) --no-print-directory web/node_modules
	cd web && npm run --silent lint && ./build.sh

web/node_modules: web/package-lock.json
	cd web && npm ci --silent || { rm -rf node_modules; exit 1; }
	@touch $@

# What ships is where scenarios begin.
fuzz:
	@$(CARGO) +nightly fuzz --version >/dev/null 2>&1 || \
	    { echo "fuzz: needs the nightly toolchain and cargo-fuzz (cargo install cargo-fuzz)"; exit 1; }
	cd fuzz && for target in $$($(CARGO) +nightly fuzz list); do \
	    mkdir -p corpus/$$target; seeds=$$([ $$target = scenario ] && echo ../scenarios); \
	    $(CARGO) +nightly fuzz run $$target corpus/$$target $$seeds -- -max_total_time=60 || exit 1; done

clean:
	$(CARGO) clean
