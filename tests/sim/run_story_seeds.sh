#!/bin/sh
# test-run: timeout=900
# run_story_seeds.sh: stories of the whole daemon on a virtual clock (story_seeds.c): short ones in
# which each fallible step fails in turn, some in which cards write nonsense, and 2,000 long ones.
set -eu
"$BUILD/tests/sim/story_seeds" --faults --seeds 60
"$BUILD/tests/sim/story_seeds" --scribble --seeds 200
exec "$BUILD/tests/sim/story_seeds" --seeds 2000
