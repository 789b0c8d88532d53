# Engram Accel: one non-recursive Makefile. `make help` lists the targets.
#
#   SAN=address|undefined|thread   sanitizer build, in its own build directory
#   CUDA=auto|0|1                  build the GPU process: if nvcc is there | never | always
#   COVERAGE=1                     gcov build, in its own build directory
#
# Files are found by folder, so adding one needs no line here:
#   kernels/cpu/*.c       arithmetic; NAME_avx2.c, NAME_avx512.c, NAME_neon.c get their flags
#   daemon/**/*.c         the daemon (daemon/main.c alone is not in the test library)
#   client/*.c            the C client;  client/cli/*.c  the command line tool
#   tests/*/**/test_*.c   one Criterion executable each;  tests/fuzz/fuzz_*.c  one target each
#   tests/bench/bench_*.c one program each

MAKEFLAGS  += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

VERSION    := 0.1.0
SOVERSION  := 0
SAN        ?=
CUDA       ?= auto
COVERAGE   ?=
PREFIX     ?= /usr/local
DESTDIR    ?=
CC         := $(if $(filter default undefined,$(origin CC)),gcc,$(CC))
PYTHON     ?= /usr/bin/python3
PKG_CONFIG ?= pkg-config
ARCH       := $(shell $(CC) -dumpmachine | cut -d- -f1)

VARIANT    := $(if $(SAN),$(SAN),$(if $(COVERAGE),coverage,release))
BUILD      ?= build/$(VARIANT)

ifneq ($(SAN),)
ifeq ($(filter $(SAN),address undefined thread),)
$(error SAN must be address, undefined or thread, not '$(SAN)')
endif
SAN_FLAGS  := -fsanitize=$(SAN) -fno-omit-frame-pointer \
              $(if $(filter undefined,$(SAN)),-fno-sanitize-recover=all)
endif
COV_FLAGS  := $(if $(COVERAGE),--coverage -fprofile-update=atomic)

# Every translation unit: no contraction of a*b+c, no fast-math (DESIGN.md 5).
ARITHMETIC := -ffp-contract=off -fno-fast-math
WARNINGS   := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
              -Wwrite-strings -Wundef -Wvla -Wno-unused-parameter -Werror=implicit \
              -Werror=incompatible-pointer-types $(if $(WERROR),-Werror)
BUILD_TEXT := $(notdir $(CC)) $(shell $(CC) -dumpfullversion -dumpversion), $(ARCH), $(VARIANT)
CPPFLAGS   := -D_GNU_SOURCE -DENGRAM_VERSION='"$(VERSION)"' -DENGRAM_BUILD='"$(BUILD_TEXT)"' \
              -I. -I$(BUILD)/gen
OPT        ?= $(if $(COVERAGE),-O1,-O2)
CFLAGS     := -std=gnu11 $(OPT) -g -fPIC -pthread -fvisibility=hidden -fstack-protector-strong \
              $(ARITHMETIC) $(WARNINGS) $(SAN_FLAGS) $(COV_FLAGS)
LDFLAGS    := -pthread -Wl,-z,relro,-z,now -Wl,--as-needed $(SAN_FLAGS) $(COV_FLAGS)

NANOPB_LIB := -lprotobuf-nanopb
DAEMON_LIB := $(NANOPB_LIB) -luv -lcjson -lxxhash -lsystemd -lm
CLIENT_LIB := $(NANOPB_LIB) -lm

# ---------------------------------------------------------------- files
KERNEL_SRC := $(filter-out %_avx2.c %_avx512.c %_neon.c,$(wildcard kernels/cpu/*.c))
ifeq ($(ARCH),x86_64)
KERNEL_SRC += $(wildcard kernels/cpu/*_avx2.c kernels/cpu/*_avx512.c)
endif
ifeq ($(ARCH),aarch64)
KERNEL_SRC += $(wildcard kernels/cpu/*_neon.c)
endif
DAEMON_SRC := $(filter-out daemon/main.c,$(wildcard daemon/*.c)) \
              $(filter-out $(wildcard daemon/gpu/*.c),$(wildcard daemon/*/*.c))
CLIENT_SRC := $(wildcard client/*.c)
CLI_SRC    := $(wildcard client/cli/*.c)
PROTO_GEN  := $(BUILD)/gen/proto/engram_accel.pb

obj         = $(patsubst %.c,$(BUILD)/%.o,$(1))
KERNEL_A   := $(BUILD)/libkernels.a
DAEMON_A   := $(BUILD)/libdaemon.a
PROTO_O    := $(PROTO_GEN).o
CLIENT_A   := $(BUILD)/libengram_accel.a
CLIENT_SO  := $(BUILD)/libengram_accel.so.$(VERSION)
CLI_A      := $(BUILD)/libcli.a
DAEMON     := $(BUILD)/engram-acceld
CLI        := $(BUILD)/engram-accel

TEST_SRC   := $(shell find tests/unit tests/kernels tests/integration tests/torture tests/sim \
                tests/fuzz -name 'test_*.c' 2>/dev/null | sort)
TEST_LIB   := $(wildcard tests/support/*.c)
TEST_BIN   := $(patsubst %.c,$(BUILD)/%,$(TEST_SRC))
BENCH_SRC  := $(wildcard tests/bench/bench_*.c)
BENCH_BIN  := $(patsubst %.c,$(BUILD)/%,$(BENCH_SRC))

.PHONY: all help clean test check demo bench lint format install uninstall fuzz coverage deps \
        gpu-bundle tests benches
.SECONDARY:

all: $(DAEMON) $(CLI) $(CLIENT_A) $(CLIENT_SO) $(BUILD)/engram-accel.pc

help:
	@sed -n 's/^## \([a-z-]*\): \(.*\)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

# ---------------------------------------------------------------- compile
$(BUILD)/%.o: %.c | $(PROTO_GEN).h
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(ISA_FLAGS) -MMD -MP -c $< -o $@

%_avx2.o:   ISA_FLAGS := -mavx2 -mfma -O3
%_avx512.o: ISA_FLAGS := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -O3
%_neon.o:   ISA_FLAGS := -O3

$(PROTO_GEN).c $(PROTO_GEN).h &: proto/engram_accel.proto proto/engram_accel.options
	@mkdir -p $(BUILD)/gen
	protoc --plugin=protoc-gen-nanopb=/usr/bin/protoc-gen-nanopb -I. \
	    --nanopb_out=$(BUILD)/gen $<

$(PROTO_O): $(PROTO_GEN).c $(PROTO_GEN).h
	$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

$(KERNEL_A): $(call obj,$(KERNEL_SRC))
$(DAEMON_A): $(call obj,$(DAEMON_SRC))
$(CLI_A):    $(call obj,$(filter-out client/cli/main.c,$(CLI_SRC)))
$(CLIENT_A): $(call obj,$(CLIENT_SRC)) $(PROTO_O)
$(KERNEL_A) $(DAEMON_A) $(CLI_A) $(CLIENT_A):
	@rm -f $@
	ar rcs $@ $^

$(DAEMON): $(BUILD)/daemon/main.o $(DAEMON_A) $(KERNEL_A) $(PROTO_O)
	$(CC) $(LDFLAGS) -o $@ $^ $(DAEMON_LIB)

$(CLI): $(BUILD)/client/cli/main.o $(CLI_A) $(CLIENT_A)
	$(CC) $(LDFLAGS) -o $@ $^ $(CLIENT_LIB)

$(CLIENT_SO): $(call obj,$(CLIENT_SRC)) $(PROTO_O)
	$(CC) $(LDFLAGS) -shared -Wl,-soname,libengram_accel.so.$(SOVERSION) -Wl,-z,defs \
	    -Wl,--exclude-libs,ALL -o $@ $^ $(CLIENT_LIB)
	ln -sf $(@F) $(BUILD)/libengram_accel.so.$(SOVERSION)
	ln -sf libengram_accel.so.$(SOVERSION) $(BUILD)/libengram_accel.so

$(BUILD)/engram-accel.pc: client/engram-accel.pc.in Makefile
	@mkdir -p $(@D)
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' $< > $@

# ---------------------------------------------------------------- tests and benches
$(BUILD)/tests/bench/%: $(BUILD)/tests/bench/%.o $(call obj,$(TEST_LIB)) $(DAEMON_A) $(KERNEL_A) \
        $(CLI_A) $(CLIENT_A)
	$(CC) $(LDFLAGS) -o $@ $^ $(DAEMON_LIB) $(BENCH_LIBS)

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(call obj,$(TEST_LIB)) $(DAEMON_A) $(KERNEL_A) $(CLI_A) \
        $(CLIENT_A)
	$(CC) $(LDFLAGS) -o $@ $^ $(DAEMON_LIB) -lcriterion

tests: all $(TEST_BIN)
benches: all $(BENCH_BIN)

clean:
	rm -rf build gpu-bundle

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
