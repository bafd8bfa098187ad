# attentiond: every entry point. `make help` lists them.

VERSION := 0.1.0
SOVERSION := 0

MODE ?= release
BUILD ?= build
B := $(BUILD)/$(MODE)
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
SYSCONFDIR ?= $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)
UNITDIR ?= $(PREFIX)/lib/systemd/system
DESTDIR ?=
CC ?= gcc
V ?= 0
Q := $(if $(filter 1,$(V)),,@)

# What the build and the tests need, as Debian names it.
BUILD_PACKAGES := gcc libc6-dev pkg-config libmicrohttpd-dev libjansson-dev \
	libopenblas-pthread-dev libgnutls28-dev zlib1g-dev libzstd-dev libxxhash-dev libseccomp-dev
TEST_PACKAGES := $(BUILD_PACKAGES) check curl openssl python3 zstd
NEON_PACKAGES := gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user libxxhash-dev
CHECK_ALL_PACKAGES := $(TEST_PACKAGES) $(NEON_PACKAGES) clang libclang-rt-14-dev clang-format valgrind \
	yamllint prometheus shellcheck universal-ctags python3-onnx python3-numpy $(if $(shell command -v npm),,npm)

WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wvla -Wmissing-prototypes \
	-Wstrict-prototypes -Wpointer-arith -Wcast-qual -Wformat=2 -Wundef -Werror
# What guards a program against its own faults, as far as this compiler offers it: frames that cannot
# step over the guard page, jumps that land only where they may, checked sizes of buffers.
OFFERED := $(shell for flag in -fstack-clash-protection -fcf-protection=full \
	-mbranch-protection=standard -D_FORTIFY_SOURCE=3; do \
	$(CC) -Werror -O2 $$flag -include features.h -x c -S -o /dev/null /dev/null 2>/dev/null && \
		echo $$flag; done)
FORTIFY := -U_FORTIFY_SOURCE $(or $(filter -D_FORTIFY_SOURCE=%,$(OFFERED)),-D_FORTIFY_SOURCE=2)
HARDENED := -fstack-protector-strong $(filter-out -D%,$(OFFERED))
HARDENED_LINK := -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code

CFLAGS_release := -O2 -g $(FORTIFY)
CFLAGS_debug := -O0 -g3
CFLAGS_asan := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined \
	-fno-sanitize-recover=all
CFLAGS_tsan := -O1 -g -fsanitize=thread
# What code compares is not told to the fuzzer: that takes most of the time, and dictionaries and the
# functions that compare strings, which it sees anyway, tell it the words.
CFLAGS_fuzz := -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined \
	-fno-sanitize-recover=all -fno-sanitize-coverage=trace-cmp
# Counters are shared by threads.
CFLAGS_coverage := -O0 -g --coverage -fprofile-update=atomic
# For tests/static/cc.sh, which analyses what it compiles.
CFLAGS_static := -O1 -g
ifeq ($(CFLAGS_$(MODE)),)
$(error MODE must be release, debug, asan, tsan, fuzz, coverage or static, not '$(MODE)')
endif

PKG_CONFIG ?= pkg-config
BLAS_CFLAGS = $(shell $(PKG_CONFIG) --cflags openblas)
BLAS_LIBS = $(shell $(PKG_CONFIG) --libs openblas)
CHECK_LIBS = $(shell $(PKG_CONFIG) --libs check)
SERVER_LIBS := -lmicrohttpd -lgnutls -ljansson -lz -lzstd -lseccomp -lm

ALL_CFLAGS = -std=gnu11 -D_GNU_SOURCE -fPIC -pthread $(HARDENED) $(WARNINGS) \
	$(CFLAGS_$(MODE)) -DATTN_VERSION='"$(VERSION)"' -Iinclude $(CFLAGS)
ALL_LDFLAGS = -pthread $(filter -fsanitize%,$(CFLAGS_$(MODE))) \
	$(filter --coverage,$(CFLAGS_$(MODE))) $(HARDENED_LINK) $(LDFLAGS)

# ---- sources: a folder of server/ is a layer, and may use only those before it ---------------

LIB_SOURCES := $(wildcard lib/*.c lib/kernels/*.c)
SERVER_LAYERS := base model sched codec http
LIB_OBJECTS := $(LIB_SOURCES:%.c=$B/%.o)
LIB_ARCHIVE := $B/libattention.a
SO_NAME := libattention.so.$(SOVERSION)
SO_REAL := $B/libattention.so.$(VERSION)
archive = $(foreach layer,$(1),$B/server/lib$(layer).a)
SERVER_ARCHIVES := $(call archive,http codec sched model base)

# The archives that a test of a layer may link: the layer's own and those below, highest first.
below_lib :=
below_base := base
below_model := model base
below_sched := sched model base
below_codec := codec sched model base
below_http := http codec sched model base

.PHONY: all
all: $B/attentiond $B/libattention.so ## build daemon and library (MODE=release|debug|asan|tsan|fuzz|coverage)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---- objects -----------------------------------------------------------------------------------

.PHONY: FORCE
FORCE:
$B/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(ALL_CFLAGS) | $(ALL_LDFLAGS) $(RUNPATH)' | cmp -s - $@ || \
		echo '$(CC) $(ALL_CFLAGS) | $(ALL_LDFLAGS) $(RUNPATH)' > $@

.PRECIOUS: $B/%.o

$B/lib/blas.o: PART_CFLAGS = $(BLAS_CFLAGS)
# Kernels are loops over floats: let the compiler unroll and vectorise them. What they fuse they say;
# a product that is to be rounded must be.
KERNEL_CFLAGS := $(if $(filter release,$(MODE)),-O3,-O1) -ffp-contract=off
# clang needs ten minutes and more for checks inlined into a file of kernels. As calls they take seconds; what
# it says of pointers before they are used, the build with gcc's sanitizers says too.
ifeq ($(MODE),fuzz)
KERNEL_CFLAGS += -mllvm -asan-instrumentation-with-call-threshold=0 \
	-fno-sanitize=null,alignment,object-size,pointer-overflow
endif
$B/lib/kernels/%.o: PART_CFLAGS = $(KERNEL_CFLAGS)
# An instruction set is allowed in its own file alone; select.c asks the processor before it is used.
ifeq ($(shell $(CC) -dumpmachine | cut -d- -f1),x86_64)
AVX512 := -mavx2 -mfma -mavx512f -mavx512bw -mavx512dq -mavx512vl
$B/lib/kernels/avx2.o: PART_CFLAGS = $(KERNEL_CFLAGS) -mavx2 -mfma
$B/lib/kernels/avx512.o: PART_CFLAGS = $(KERNEL_CFLAGS) $(AVX512)
$B/lib/kernels/avx512_bf16.o: PART_CFLAGS = $(KERNEL_CFLAGS) $(AVX512) -mavx512bf16
endif
$B/lib/%.o: LAYER_CFLAGS = -Ilib
$B/server/%.o: LAYER_CFLAGS = -Iserver
$B/tests/%.o: LAYER_CFLAGS = -Iserver -Ilib -Itests

$B/%.o: %.c $B/flags Makefile
	@mkdir -p $(@D)
	@$(if $(filter 1,$(V)),,echo '  CC    $<')
	$(Q)$(CC) $(ALL_CFLAGS) $(LAYER_CFLAGS) $(PART_CFLAGS) -MMD -MP -c $< -o $@

# ---- library -----------------------------------------------------------------------------------

$(LIB_ARCHIVE): $(LIB_OBJECTS)
	@rm -f $@
	$(Q)ar rcs $@ $^

$(SO_REAL): $(LIB_OBJECTS) lib/libattention.map
	@echo '  LD    $@'
	$(Q)$(CC) -shared -Wl,-soname,$(SO_NAME) -Wl,--version-script,lib/libattention.map \
		$(if $(filter asan tsan fuzz,$(MODE)),,-Wl,--no-undefined) $(ALL_LDFLAGS) \
		-o $@ $(LIB_OBJECTS) -lm
	$(Q)ln -sf $(notdir $@) $B/$(SO_NAME)

$B/libattention.so: $(SO_REAL)
	$(Q)ln -sf $(SO_NAME) $@

.PHONY: symbols
symbols: $B/libattention.so ## compare the library's exports with lib/libattention.map
	@sed -n 's/^ *\(attn_[a-z0-9_]*\);.*/\1/p' lib/libattention.map | sort > $B/symbols.map
	@nm -D --defined-only $B/libattention.so | awk '$$2 == "T" {sub(/@.*/, "", $$3); print $$3}' \
		| sort > $B/symbols.so
	@cat include/*.h | grep -v '^typedef' | grep -o '\battn_[a-z0-9_]*(' | tr -d '(' | sort -u \
		| grep -v -x -e attn_bool -e attn_int -e attn_real > $B/symbols.header
	@diff $B/symbols.map $B/symbols.so
	@diff $B/symbols.map $B/symbols.header
	@sed -n 's/^ \(attn_[a-z0-9_]*\)@.*/\1/p' $(wildcard config/debian/libattention0.symbols \
		debian/libattention0.symbols) | sort > $B/symbols.deb
	@diff $B/symbols.map $B/symbols.deb
	@echo 'symbols: exports, map, header and package agree'

# ---- daemon ------------------------------------------------------------------------------------

define server_layer
$B/server/lib$(1).a: $(patsubst %.c,$B/%.o,$(wildcard server/$(1)/*.c))
	@rm -f $$@
	$$(Q)ar rcs $$@ $$^
endef
$(foreach layer,$(SERVER_LAYERS),$(eval $(call server_layer,$(layer))))

# The daemon finds the library beside itself in the build tree, and in ../lib once installed. Packages,
# whose library lies where the loader looks anyway, leave it out.
RUNPATH ?= $$ORIGIN:$$ORIGIN/../lib
MAIN_OBJECTS := $(patsubst %.c,$B/%.o,$(wildcard server/*.c))
$B/attentiond: $(MAIN_OBJECTS) $(SERVER_ARCHIVES) $B/libattention.so
	@echo '  LD    $@'
	$(Q)$(CC) -pie $(ALL_LDFLAGS) $(RUNPATH:%='-Wl,-rpath,%') -o $@ $(MAIN_OBJECTS) \
		$(SERVER_ARCHIVES) -L$B -lattention $(SERVER_LIBS)

.PHONY: install
install: all $(LIB_ARCHIVE) ## install under DESTDIR and PREFIX: daemon, library, header, pkg-config, demo models, manual
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBDIR)/pkgconfig \
		$(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/share/attentiond \
		$(DESTDIR)$(PREFIX)/share/man/man8
	install -m 755 $B/attentiond $(DESTDIR)$(PREFIX)/bin/
	install -m 644 $(SO_REAL) $(LIB_ARCHIVE) $(DESTDIR)$(LIBDIR)/
	ln -sf $(notdir $(SO_REAL)) $(DESTDIR)$(LIBDIR)/$(SO_NAME)
	ln -sf $(SO_NAME) $(DESTDIR)$(LIBDIR)/libattention.so
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR:$(PREFIX)/%=$${prefix}/%)|' \
		-e 's|@VERSION@|$(VERSION)|' lib/libattention.pc.in \
		> $(DESTDIR)$(LIBDIR)/pkgconfig/libattention.pc
	install -m 644 include/*.h $(DESTDIR)$(PREFIX)/include/
	install -m 644 config/attentiond.json $(DESTDIR)$(PREFIX)/share/attentiond/
	cp -R config/models $(DESTDIR)$(PREFIX)/share/attentiond/
	awk -f config/man/options.awk README.md | sed -e '/^@OPTIONS@$$/{r /dev/stdin' -e 'd}' \
		-e 's/@VERSION@/$(VERSION)/' config/man/attentiond.8.in \
		> $(DESTDIR)$(PREFIX)/share/man/man8/attentiond.8

# A configuration that is there already is left as it is.
.PHONY: install-service
install-service: install ## the same, with systemd units, their user, and a configuration where there is none
	install -d $(DESTDIR)$(UNITDIR) $(DESTDIR)$(PREFIX)/lib/sysusers.d $(DESTDIR)$(SYSCONFDIR)/attentiond
	for unit in attentiond.service attentiond.socket; do \
		sed -e 's|/usr/bin/attentiond|$(PREFIX)/bin/attentiond|' -e 's|/etc/att|$(SYSCONFDIR)/att|' \
			config/systemd/$$unit > $(DESTDIR)$(UNITDIR)/$$unit || exit 1; \
	done
	install -m 644 config/systemd/sysusers.conf $(DESTDIR)$(PREFIX)/lib/sysusers.d/attentiond.conf
	configuration=$(DESTDIR)$(SYSCONFDIR)/attentiond/attentiond.json; [ -e $$configuration ] || \
		sed 's|/usr/share|$(PREFIX)/share|' config/systemd/attentiond.json > $$configuration

# ---- running -----------------------------------------------------------------------------------

.PHONY: deps
deps: ## install the Debian packages that the build needs
	@tests/install-packages.sh $(BUILD_PACKAGES)

.PHONY: test-deps
test-deps: ## install the Debian packages that the tests need
	@tests/install-packages.sh $(TEST_PACKAGES)

# The packages come first, then a second make that sees what they brought.
.PHONY: run
run: deps ## install what is missing, build, start the daemon with the demo layers
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory all
	$B/attentiond $(ARGS)

.PHONY: check
check: test-deps ## install what is missing, build, pass every test
	@tests/install-packages.sh $(STATIC_PACKAGES) $(FUZZ_PACKAGES)
	@[ $$(id -u) -ne 0 ] || tests/install-packages.sh $(IMAGE_PACKAGES)
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory tests-built
	$(Q)$(MAKE) --no-print-directory check-built

# ---- packages ----------------------------------------------------------------------------------

# Debian packages are built from a copy of what they need, with config/debian as its debian/.
DEB_PACKAGES := $(BUILD_PACKAGES) dpkg-dev debhelper lintian
CHECK_DEB_PACKAGES := $(DEB_PACKAGES) mmdebstrap systemd curl python3 iproute2 util-linux
DEB := $(abspath $(BUILD))/deb
DEB_SOURCES := LICENSE Makefile README.md config include lib server
# A make inside of dpkg-buildpackage is to know nothing of this one.
CLEAN_ENVIRONMENT := env -u MAKEFLAGS -u MAKEOVERRIDES -u MAKELEVEL -u MFLAGS -u MODE -u BUILD -u CC \
	-u CFLAGS -u LDFLAGS -u PREFIX -u DESTDIR

.PHONY: deb
deb: ## build Debian packages of daemon, library and header: build/deb
	@tests/install-packages.sh $(DEB_PACKAGES)
	$(Q)$(MAKE) --no-print-directory $(DEB)/built
	@ls $(DEB)/*.deb

$(DEB)/built: $(shell find $(DEB_SOURCES) -type f)
	@rm -rf $(DEB)/attentiond $(DEB)/*.deb $(DEB)/attentiond_* $@
	@mkdir -p $(DEB)/attentiond
	$(Q)cp -Rp $(DEB_SOURCES) $(DEB)/attentiond
	$(Q)mv $(DEB)/attentiond/config/debian $(DEB)/attentiond/debian
	@head -n 1 $(DEB)/attentiond/debian/changelog | grep -q '^attentiond ($(VERSION)-' || \
		{ echo 'config/debian/changelog does not begin with version $(VERSION)'; exit 1; }
	@echo "  DEB   $(DEB)/attentiond, log $(DEB)/build.log"
	$(Q)cd $(DEB)/attentiond && $(CLEAN_ENVIRONMENT) dpkg-buildpackage -us -uc -b -jauto \
		> ../build.log 2>&1 || { tail -n 40 ../build.log; exit 1; }
	@touch $@

.PHONY: check-deb
check-deb: ## install, run, upgrade and remove the packages in a Debian of their own (root)
	@tests/install-packages.sh $(CHECK_DEB_PACKAGES)
	$(Q)$(MAKE) --no-print-directory $(DEB)/built
	@tests/deb/run.sh $(DEB)

# ---- container image ---------------------------------------------------------------------------

IMAGE_PACKAGES := buildah podman runc mmdebstrap catatonit
IMAGE_TEST_PACKAGES := qemu-user $(if $(shell command -v npm),,npm)
# Where containers are built and started, as their scripts expect it.
CONTAINED = BUILD='$(abspath $(BUILD))' tests/container/mounts.sh

.PHONY: image
image: ## build the container image, with Docker or else with buildah (TESTS=quick|all|none, OPENBLAS=yes)
	@docker version >/dev/null 2>&1 || tests/install-packages.sh $(IMAGE_PACKAGES)
	@TESTS='$(TESTS)' OPENBLAS='$(OPENBLAS)' $(CONTAINED) docker/image.sh \
		localhost/attentiond:$(VERSION) localhost/attentiond:test

.PHONY: image-arm64
image-arm64: ## build the image for 64-bit ARM on this machine, with buildah
	@tests/install-packages.sh $(IMAGE_PACKAGES)
	@ENGINE=buildah ARCH=arm64 TESTS=none $(CONTAINED) docker/image.sh \
		localhost/attentiond:$(VERSION)-arm64 localhost/attentiond:test-arm64

# Both start containers, or say why they do not. The quick one is part of `check`.
.PHONY: check-image check-image-quick
check-image: all ## build the images and run them for real: users, limits, read-only, 64-bit ARM
	@[ $$(id -u) -ne 0 ] || tests/install-packages.sh $(IMAGE_PACKAGES) $(IMAGE_TEST_PACKAGES)
	@$(CONTAINED) tests/container/run.sh all $B/attentiond
check-image-quick: all
	@[ $$(id -u) -ne 0 ] || tests/install-packages.sh $(IMAGE_PACKAGES)
	@$(CONTAINED) tests/container/run.sh quick $B/attentiond

.PHONY: clean-container
clean-container: ## remove the images, containers and bases that were made for tests
	@BUILD='$(abspath $(BUILD))' bash -c '. tests/container/lib.sh && remove_store'

# The root of the image, from what is built, in ROOT.
.PHONY: image-root
image-root: all
	@rm -rf '$(ROOT)'
	$(Q)$(MAKE) --no-print-directory install DESTDIR='$(ROOT)' PREFIX=/usr >/dev/null
	@docker/stage-root.sh '$(ROOT)' "$$($(CC) -dumpmachine)" $(OPENBLAS)

# For docker/: what the build needs, and the same for another processor.
.PHONY: build-packages cross-deps
build-packages:
	@echo $(BUILD_PACKAGES)
cross-deps:
	@tests/install-packages.sh make pkg-config gcc-$(subst _,-,$(TRIPLET)) \
		$(patsubst %,%:$(ARCH),$(filter-out gcc pkg-config,$(BUILD_PACKAGES)))

# ---- cluster -----------------------------------------------------------------------------------

CLUSTER_PACKAGES := python3 haproxy prometheus yamllint
CLUSTER ?= containers

.PHONY: check-cluster
check-cluster: all ## restart, kill and add daemons behind HAProxy under load (CLUSTER=containers|processes)
	@tests/install-packages.sh $(CLUSTER_PACKAGES) $(if $(filter containers,$(CLUSTER)),$(IMAGE_PACKAGES))
	@CLUSTER=$(CLUSTER) $(CONTAINED) tests/cluster/run.sh $B/attentiond

# ---- Kubernetes --------------------------------------------------------------------------------

# promtool is in the package of Prometheus.
MANIFEST_PACKAGES := prometheus $(if $(shell command -v npm),,npm)

.PHONY: check-manifests
check-manifests: all ## check config/k8s: schemas, references, and against the daemon
	@tests/install-packages.sh $(MANIFEST_PACKAGES)
	@tests/k8s/run.sh $B/attentiond $(BUILD)/k8s

.PHONY: check-kube
check-kube: all ## let podman run the Deployment of config/k8s
	@tests/install-packages.sh $(MANIFEST_PACKAGES) $(IMAGE_PACKAGES)
	@tests/k8s/packages.sh $(BUILD)/k8s
	@$(CONTAINED) tests/container/kube.sh $B/attentiond

# ---- tests -------------------------------------------------------------------------------------

UNIT_TESTS := $(patsubst %.c,$B/%,$(wildcard tests/unit/*/test_*.c))
FUZZ_TARGETS := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
REPLAYS := $(FUZZ_TARGETS:%=$B/tests/fuzz/replay_%)
# Calls of the C library, of which some are to fail; loaded before the daemon's libraries.
INJECTION := $B/tests/faults/inject.so

define unit_layer
$B/tests/unit/$(1)/test_%: $B/tests/unit/$(1)/test_%.o $B/tests/unit/support.o \
		$(call archive,$(below_$(1))) $(LIB_ARCHIVE)
	@echo "  LD    $$@"
	$$(Q)$$(CC) $$(ALL_LDFLAGS) -o $$@ $$^ $$(if $(filter-out lib,$(1)),$$(SERVER_LIBS)) \
		$$(CHECK_LIBS) -lm
endef
$(foreach layer,lib $(SERVER_LAYERS),$(eval $(call unit_layer,$(layer))))

GOLDEN_OBJECTS := $(patsubst %.c,$B/%.o,$(wildcard tests/golden/*.c))
$B/tests/golden/golden: $(GOLDEN_OBJECTS) $B/libattention.so
	@echo '  LD    $@'
	$(Q)$(CC) $(ALL_LDFLAGS) -Wl,-rpath,'$$ORIGIN/../..' -o $@ $(GOLDEN_OBJECTS) \
		-L$B -lattention -ljansson -lm

# One process goes through every table of kernels.
$(patsubst %,$B/%,tests/fuzz/fuzz_layer tests/fuzz/replay_fuzz_layer cross/replay): \
	PART_LDFLAGS = -Wl,--wrap=attni_kernels

$B/tests/fuzz/replay_%: $B/tests/fuzz/%.o $B/tests/fuzz/replay.o \
		$(call archive,http codec sched model base) $(LIB_ARCHIVE)
	$(Q)$(CC) $(ALL_LDFLAGS) $(PART_LDFLAGS) -o $@ $^ $(SERVER_LIBS)

$B/tests/fuzz/fuzz_%: $B/tests/fuzz/fuzz_%.o $(call archive,http codec sched model base) $(LIB_ARCHIVE)
	$(Q)$(CC) $(ALL_LDFLAGS) $(PART_LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(SERVER_LIBS)

# Every suite, in this order also where `make -j` builds for it.
SUITES := unit golden fuzz integration lint
.PHONY: check-suites
check-suites: all $(SUITES:%=check-%)

# Two at a time, and of integration's suites too: most of what they do is wait. The longest begin.
.PHONY: check-built check-beside
check-built:
	$(Q)$(MAKE) -j2 --no-print-directory check-beside JOBS=2
	@echo 'check: every suite passed'
check-beside: check-integration check-static fuzz-brief check-image-quick check-unit check-golden check-fuzz \
	check-faults-quick check-lint

# How many suites of integration run at once.
JOBS ?= 1

# What the suites run.
.PHONY: tests-quick tests-built
tests-quick: all $(UNIT_TESTS) $B/tests/tools/other_kernels $B/tests/golden/golden $(INJECTION)
tests-built: tests-quick $(REPLAYS)

# Tests that run whole layers are repeated with all kernels that this processor can run. (Tests of
# kernels alone go through every table by themselves.)
LAYER_TESTS := $(patsubst %,$B/tests/unit/lib/test_%,forward rows scores linear \
	linear_threads layer alone back_linear gradients gradients_rows gradients_causal training \
	many cache cache_plan cache_state fingerprint long)

# Projections where the machine has neither kernels of ours nor BLAS.
NO_BLAS_TESTS := $(patsubst %,$B/tests/unit/lib/no_blas_%,forward linear back_linear gradients training many)
$B/tests/unit/lib/no_blas_%: $B/tests/unit/lib/test_%.o $B/tests/unit/support.o $B/tests/cross/no_blas.o $(LIB_ARCHIVE)
	@echo '  LD    $@'
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(CHECK_LIBS) -lm

$B/tests/tools/%: $B/tests/tools/%.o $(LIB_ARCHIVE)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ -lm

.PHONY: check-unit
check-unit: $(UNIT_TESTS) $(NO_BLAS_TESTS) $B/tests/tools/other_kernels
	@tests/unit/run.sh $(UNIT_TESTS)
	@for isa in $$($B/tests/tools/other_kernels); do \
		echo "with ATTN_ISA=$$isa:"; \
		ATTN_ISA=$$isa tests/unit/run.sh $(LAYER_TESTS) || exit 1; \
	done
	@echo "with plain kernels, and without BLAS:"
	@ATTN_ISA=ref tests/unit/run.sh $(NO_BLAS_TESTS)

# Every float there is, written and read; `check` takes one of some hundred.
.PHONY: exhaustive-floats
exhaustive-floats: $B/tests/unit/codec/test_every_float ## write and read back all 2^32 floats: minutes
	@$< 1

.PHONY: check-golden
check-golden: $B/tests/golden/golden $B/tests/tools/other_kernels all
	@$B/tests/golden/golden tests/golden/cases
	@for isa in $$($B/tests/tools/other_kernels); do \
		echo "with ATTN_ISA=$$isa:"; \
		ATTN_ISA=$$isa $B/tests/golden/golden tests/golden/cases || exit 1; \
	done
	@python3 tests/golden/over_http.py $B/attentiond tests/golden/cases

.PHONY: check-fuzz
check-fuzz: $(REPLAYS)
	@for replay in $^; do $$replay tests/fuzz/corpus/$${replay##*replay_fuzz_} || exit 1; done

.PHONY: check-integration
check-integration: all
	@JOBS=$(JOBS) tests/integration/run.sh $B/attentiond

.PHONY: check-lint
check-lint: symbols
	@tests/lint/run.sh

# What takes longer: other builds of the same tests, and checks with tools of their own.
.PHONY: check-all
check-all: ## check, plus sanitizers, clang, valgrind, ARM, a published model, containers, packages, cluster
	@tests/install-packages.sh $(CHECK_ALL_PACKAGES)
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory tests-built
	$(Q)$(MAKE) --no-print-directory check-built
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory MODE=asan tests-built
	$(Q)$(MAKE) --no-print-directory MODE=asan check-sanitized
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory MODE=tsan tests-built
	$(Q)$(MAKE) --no-print-directory MODE=tsan check-sanitized
	$(Q)$(MAKE) --no-print-directory BUILD=$(BUILD)/clang CC=clang all check-unit check-golden
	$(Q)$(MAKE) --no-print-directory check-valgrind check-ocr check-neon check-image
	$(Q)$(MAKE) --no-print-directory check-manifests check-kube
	$(Q)$(MAKE) --no-print-directory check-deb
	$(Q)$(MAKE) --no-print-directory check-cluster
	$(Q)$(MAKE) --no-print-directory check-locks STRESS_SECONDS=30
	$(Q)$(MAKE) --no-print-directory soak SOAK_SECONDS=60
	$(Q)$(MAKE) --no-print-directory check-faults
	@echo 'check-all: every suite passed'

.PHONY: check-sanitized
check-sanitized: all check-unit check-golden check-fuzz check-integration stress

.PHONY: check-valgrind
check-valgrind: all
	@tests/integration/valgrind.sh $B/attentiond

.PHONY: check-ocr
check-ocr: all
	@tests/golden/ocr/run.sh $B/attentiond

# The library's own tests and the fuzzer's corpus on 64-bit ARM: cross-compiled, run by an emulator.
# tests/cross stands in for the packages of that machine: libcheck, and BLAS, of which it has none.
.PHONY: check-neon
check-neon:
	@tests/install-packages.sh $(NEON_PACKAGES)
	$(Q)$(MAKE) --no-print-directory BUILD=$(BUILD)/aarch64 MODE=release CC=aarch64-linux-gnu-gcc \
		CFLAGS=-Itests/cross check-emulated

EMULATED_KERNEL_TESTS := $(patsubst %,$B/cross/test_%,kernels products softmax bf16 back_kernels \
	dropout)
EMULATED_LAYER_TESTS := $(patsubst %,$B/cross/test_%,linear forward rows scores outputs post \
	back_linear post_back gradients gradients_rows)
EMULATED_OBJECTS := $(filter-out $B/lib/blas.o,$(LIB_OBJECTS)) $B/tests/cross/no_blas.o
$B/cross/test_%: $B/tests/unit/lib/test_%.o $B/tests/cross/check.o $(EMULATED_OBJECTS)
	@mkdir -p $(@D)
	$(Q)$(CC) -static $(ALL_LDFLAGS) -o $@ $^ -lm

$B/cross/replay: $B/tests/fuzz/fuzz_layer.o $B/tests/fuzz/replay.o $(EMULATED_OBJECTS)
	@mkdir -p $(@D)
	$(Q)$(CC) -static $(ALL_LDFLAGS) $(PART_LDFLAGS) -o $@ $^ -lm

.PHONY: check-emulated
check-emulated: $(EMULATED_KERNEL_TESTS) $(EMULATED_LAYER_TESTS) $B/cross/replay
	@RUNNER=qemu-aarch64 tests/unit/run.sh $(EMULATED_KERNEL_TESTS)
	@for isa in neon ref; do \
		echo "64-bit ARM with ATTN_ISA=$$isa:"; \
		ATTN_ISA=$$isa RUNNER=qemu-aarch64 tests/unit/run.sh $(EMULATED_LAYER_TESTS) || exit 1; \
	done
	@qemu-aarch64 $B/cross/replay tests/fuzz/corpus/layer

# Each for FUZZ_SECONDS, or for FUZZ_RUNS executions; FUZZ_ONLY="access http" names some of them.
FUZZ_RUNS ?= 0
FUZZ_PACKAGES := $(BUILD_PACKAGES) clang libclang-rt-14-dev
FUZZ_SECONDS ?= $(if $(filter 0,$(FUZZ_RUNS)),60,0)
.PHONY: fuzz
fuzz: ## fuzz every parser with clang's libFuzzer (FUZZ_SECONDS, FUZZ_RUNS, FUZZ_ONLY)
	@tests/install-packages.sh $(FUZZ_PACKAGES)
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory MODE=fuzz CC=clang fuzz-run

.PHONY: fuzz-brief
fuzz-brief: ## the same for 3 seconds each: what every change should pass
	@tests/install-packages.sh $(FUZZ_PACKAGES)
	$(Q)$(MAKE) $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$$(nproc)) --no-print-directory MODE=fuzz CC=clang \
		FUZZ_RUNS=0 FUZZ_SECONDS=3 fuzz-run

.PHONY: fuzz-built fuzz-run
fuzz-built: $(FUZZ_TARGETS:%=$B/tests/fuzz/%)
fuzz-run: fuzz-built
	@FUZZ_RUNS='$(FUZZ_RUNS)' FUZZ_SECONDS='$(FUZZ_SECONDS)' FUZZ_ONLY='$(FUZZ_ONLY)' \
		tests/fuzz/run.sh '$(abspath $B)' $(abspath $(FUZZ_TARGETS:%=$B/tests/fuzz/%))

# ---- faults ------------------------------------------------------------------------------------

$(INJECTION): $B/tests/faults/inject.o
	$(Q)$(CC) -shared $(ALL_LDFLAGS) -o $@ $<

FAULTS_SEED ?= 1
.PHONY: check-faults check-faults-quick
check-faults: all $(INJECTION) ## let every allocation, and much else that the daemon stands on, fail in turn: minutes
	@FAULTS_SEED=$(FAULTS_SEED) python3 tests/faults/faults.py whole $B/attentiond $(INJECTION)
check-faults-quick: all $(INJECTION)
	@FAULTS_SEED=$(FAULTS_SEED) python3 tests/faults/faults.py quick $B/attentiond $(INJECTION)

# ---- stress and soak ---------------------------------------------------------------------------

# With sanitizers: make MODE=tsan stress. STRESS_SEED repeats what the clients of a run do.
STRESS_SECONDS ?= 60
STRESS_SEED ?=
.PHONY: stress
stress: all ## ask, change and stop the daemon all at once, STRESS_SECONDS (60) long, from STRESS_SEED
	@python3 tests/stress/stress.py $B/attentiond --seconds $(STRESS_SECONDS) $(STRESS_SEED:%=--seed %)

# No thread may take a lock while it holds another; two_locks does, to see that this would be seen.
LOCK_TESTS := $B/tests/stress/one_lock $B/tests/stress/two_locks
$B/tests/stress/one_lock: PART_LDFLAGS = -shared
$(LOCK_TESTS): $B/tests/stress/%: $B/tests/stress/%.o
	@echo '  LD    $@'
	$(Q)$(CC) $(ALL_LDFLAGS) $(PART_LDFLAGS) -o $@ $<

.PHONY: check-locks
check-locks: all $(LOCK_TESTS) ## see under stress, STRESS_SECONDS long, that no thread takes a lock while it holds another
	@(LD_PRELOAD='$(abspath $(word 1,$(LOCK_TESTS)))' $(word 2,$(LOCK_TESTS)) || :) 2>&1 | grep -q '^one lock: '
	@DAEMON_PRELOAD='$(abspath $(word 1,$(LOCK_TESTS)))' $(MAKE) --no-print-directory stress

# Where threads meet.
TSAN_UNITS := $(foreach name,sched/test_* codec/test_serve* codec/test_shared codec/test_move http/test_* \
	model/test_control model/test_loader model/test_rescan model/test_swap lib/test_linear_threads lib/test_many, \
	$(patsubst %.c,%,$(wildcard tests/unit/$(name).c)))
TSAN_SUITES := concurrency queue batching busy sequences control reload operators edge access regions drain moves
.PHONY: check-tsan check-threads
check-tsan: ## build with ThreadSanitizer, run the tests where threads meet, and the stress, STRESS_SECONDS long
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory MODE=tsan all $(TSAN_UNITS:%=$(BUILD)/tsan/%)
	$(Q)$(MAKE) --no-print-directory MODE=tsan check-threads stress
check-threads: all
	@tests/unit/run.sh $(TSAN_UNITS:%=$B/%)
	@PATIENCE=120 SUITE_TIMEOUT=900 tests/integration/run.sh $B/attentiond $(TSAN_SUITES)

BAD_REQUESTS ?= 100000
.PHONY: bad-requests
bad-requests: all ## send BAD_REQUESTS (100000) requests with faults of every kind, from STRESS_SEED, and show how each was answered
	@python3 tests/stress/bad_requests.py $B/attentiond --requests $(BAD_REQUESTS) $(STRESS_SEED:%=--seed %)

SOAK_SECONDS ?= 300
.PHONY: soak
soak: all ## ask every route for SOAK_SECONDS (300): are answers, counts, memory and latency at the end what they were at first?
	@python3 tests/soak/soak.py $B/attentiond $(SOAK_SECONDS) $(STRESS_SEED)

# ---- static analysis ---------------------------------------------------------------------------

STATIC_PACKAGES := $(BUILD_PACKAGES) clang-tidy cppcheck

.PHONY: check-static
check-static: ## analyse lib/ and server/ with gcc -fanalyzer, clang-tidy and cppcheck
	@tests/install-packages.sh $(STATIC_PACKAGES)
	@mkdir -p $(BUILD)
	@tests/static/run.sh '$(BUILD)'

.PHONY: objects
objects: $(LIB_OBJECTS) $(MAIN_OBJECTS) $(SERVER_ARCHIVES)

# ---- coverage ----------------------------------------------------------------------------------

COVERAGE_SUITES ?= unit golden fuzz integration

.PHONY: coverage
coverage: ## count the lines and branches that tests reach (COVERAGE_SUITES="unit golden fuzz integration")
	@tests/install-packages.sh $(TEST_PACKAGES) gcovr
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory MODE=coverage tests-built
	@MAKE='$(MAKE)' tests/coverage.sh '$(BUILD)' $(COVERAGE_SUITES)

# ---- measuring ---------------------------------------------------------------------------------

BENCH_OBJECTS := $(patsubst %,$B/tests/bench/%.o,cases machine pool problem timing)
$B/tests/bench/yardstick.o $B/tests/bench/projections.o: PART_CFLAGS = $(BLAS_CFLAGS)

$B/tests/bench/layers: $B/tests/bench/layers.o $B/tests/bench/ours.o $B/tests/bench/yardstick.o \
		$(BENCH_OBJECTS) $B/libattention.so
	@echo '  LD    $@'
	$(Q)$(CC) $(ALL_LDFLAGS) -Wl,-rpath,'$$ORIGIN/../..' -o $@ $(filter %.o,$^) \
		-L$B -lattention $(BLAS_LIBS) -lm

$B/tests/bench/projections: $B/tests/bench/projections.o $(BENCH_OBJECTS) $(LIB_ARCHIVE)
	@echo '  LD    $@'
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(BLAS_LIBS) -lm

# Tensors as JSON, beside jansson.
$B/tests/bench/json: $(patsubst %,$B/tests/bench/%.o,json cases timing) \
		$(call archive,$(below_codec)) $(LIB_ARCHIVE)
	@echo '  LD    $@'
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(SERVER_LIBS)

# Times a peer that is loaded while it runs, so it needs nothing of it here.
$B/tests/bench/peer_onnxruntime: $B/tests/bench/peer_onnxruntime.o $(BENCH_OBJECTS) $(LIB_ARCHIVE)
	@echo '  LD    $@'
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(BLAS_LIBS) -ldl -lm

# Loads a server over HTTP; needs libc alone.
$B/tests/bench/load: $(patsubst %,$B/tests/bench/%.o,load load_options load_reply load_request load_run \
		histogram cases timing)
	@echo '  LD    $@'
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^

# Answers the same bytes as the daemon with the HTTP library alone.
$B/tests/bench/echo: $B/tests/bench/echo.o $B/tests/bench/cases.o
	@echo '  LD    $@'
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ -lmicrohttpd

BENCH_PROGRAMS := $(patsubst %,$B/tests/bench/%,layers projections peer_onnxruntime)

.PHONY: bench
bench: $(BENCH_PROGRAMS) ## measure every layer beside plain BLAS and, where installed, PyTorch and ONNX Runtime
	@tests/bench/layers.py $B/tests/bench $(BUILD)/onnxruntime

.PHONY: bench-serve
bench-serve: $B/attentiond $B/tests/bench/load $B/tests/bench/echo ## measure the daemon over HTTP, beside peers where installed
	@tests/bench/serve.py $^ $(BUILD)/onnxruntime

.PHONY: bench-slow
bench-slow: $B/attentiond $B/tests/bench/load ## measure a healthy client beside 1,000 slow ones
	@tests/bench/slow_clients.py $^

.PHONY: bench-json
bench-json: $B/tests/bench/json ## measure reading and writing of JSON tensors beside jansson, a minute or two
	@$B/tests/bench/json

# Long runs under load; BENCH_SECONDS says how long.
SOAKS := soak-reload soak-timeouts soak-unload
.PHONY: $(SOAKS)
soak-reload: ## ask a model that is loaded again every 100 ms, for a minute
soak-timeouts: ## ask for more than can be answered in time, for ten minutes
soak-unload: ## load, ask and unload 200 times
$(SOAKS): $B/attentiond $B/tests/bench/load
	@tests/bench/soak.py $(@:soak-%=%) $^

.PHONY: bench-peers
bench-peers: ## install the peers of both: PyTorch and web servers (Debian), ONNX Runtime (npm, under build/)
	@tests/install-packages.sh python3-torch python3-numpy python3-onnx python3-fastapi python3-uvicorn \
		python3-uvloop python3-httptools python3-aiohttp python3-ujson \
		$(if $(shell command -v npm),,npm)
	@mkdir -p $(BUILD)/onnxruntime
	$(Q)cd $(BUILD)/onnxruntime && npm install --ignore-scripts --no-audit --no-fund --silent \
		onnxruntime-node@1

.PHONY: clean
clean: clean-container ## remove everything that was built
	rm -rf $(BUILD)

-include $(shell find $B -name '*.d' 2>/dev/null)
