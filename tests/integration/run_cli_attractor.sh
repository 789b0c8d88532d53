#!/bin/sh
# The command line tool's attractors against the real daemon.
# test-run: timeout=900
exec /usr/bin/python3 -B tests/integration/cli_attractor.py "${BUILD:-build/release}"
