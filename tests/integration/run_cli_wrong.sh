#!/bin/sh
# 100 wrong commands against the real daemon.
# test-run: timeout=600
exec /usr/bin/python3 -B tests/integration/cli_wrong.py "${BUILD:-build/release}"
