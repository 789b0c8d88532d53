#!/bin/sh
# What the command line tool reads and prints, against the real daemon and docs/schemas.
# test-run: timeout=600
exec /usr/bin/python3 -B tests/integration/cli_formats.py "${BUILD:-build/release}"
