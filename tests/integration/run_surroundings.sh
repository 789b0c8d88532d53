#!/bin/sh
# The daemon where something is amiss around it: limits, files, outputs, folders, /proc, the clock.
# test-run: timeout=600
exec /usr/bin/python3 -B tests/integration/surroundings.py "${BUILD:-build/release}"
