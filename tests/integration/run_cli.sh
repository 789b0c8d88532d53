#!/bin/sh
# The command line tool against the real daemon: outputs, files, exit codes, interrupts.
# test-run: timeout=900
exec /usr/bin/python3 tests/integration/cli.py "${BUILD:-build/release}"
