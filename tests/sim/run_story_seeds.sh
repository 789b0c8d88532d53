#!/bin/sh
# test-run: timeout=900
# run_story_seeds.sh: 2,000 stories of the whole daemon on a virtual clock (story_seeds.c).
set -eu
exec "$BUILD/tests/sim/story_seeds" --seeds 2000
