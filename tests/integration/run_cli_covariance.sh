#!/bin/sh
# The command line tool's covariance against the real daemon and numpy.
# test-run: timeout=900
exec /usr/bin/python3 -B tests/integration/cli_covariance.py "${BUILD:-build/release}"
