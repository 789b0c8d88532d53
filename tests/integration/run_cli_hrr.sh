#!/bin/sh
# The command line tool's holographic operations against the real daemon.
# test-run: timeout=900
exec /usr/bin/python3 -B tests/integration/cli_hrr.py "${BUILD:-build/release}"
