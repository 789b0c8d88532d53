#!/bin/sh
# The command line tool's clusters against the real daemon.
# test-run: timeout=900
exec /usr/bin/python3 -B tests/integration/cli_cluster.py "${BUILD:-build/release}"
