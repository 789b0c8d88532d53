#!/bin/sh
# Each sentence of proto/README.md with "must", "never" or "always" names a test that exists.
exec /usr/bin/python3 -B tests/house/page.py proto/README.md
