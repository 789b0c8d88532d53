#!/bin/sh
# The status page over HTTP: tokens, hosts, headers, files, slow requests; its arithmetic in Node.
# test-run: timeout=600
exec /usr/bin/python3 -B tests/integration/page_http.py "${BUILD:-build/release}"
