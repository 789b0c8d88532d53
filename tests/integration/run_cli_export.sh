#!/bin/sh
# Exports, and what has changed: the command line tool against the real daemon.
# test-run: timeout=600
exec /usr/bin/python3 -B tests/integration/cli_export.py "${BUILD:-build/release}"
