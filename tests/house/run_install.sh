#!/bin/sh
# run_install.sh: make install gives a stranger all that docs/operate.md promises: README's example
# builds against it with pkg-config, as C and against the header as C++, and gets its answer from the
# installed daemon; make uninstall takes back all but the settings.
set -eu
cd "$(dirname "$0")/../.."
case ${BUILD:=build/release} in
*/release) ;;
*) echo "SKIP run_install: sanitizer and coverage builds are not installed"; exit 77 ;;
esac

work=$(mktemp -d)
daemon=
cleanup() {
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
# install-files: everything is built, and other tests are using it.
run_make() {
    MAKEFLAGS='' MAKELEVEL='' make -s "$@" BUILD="$BUILD" PREFIX=/usr/local DESTDIR="$work/root" \
        >"$work/make.log" 2>&1 || { cat "$work/make.log"; exit 1; }
}
run_make install-files

root=$work/root/usr/local
for file in bin/engram-acceld bin/engram-accel-gpu bin/engram-accel include/engram_accel.h \
    include/engram_accel_codes.h include/engram_accel_graph.h include/engram_accel_hrr.h \
    include/engram_accel_cluster.h include/engram_accel_covariance.h \
    include/engram_accel_objects.h include/engram_accel_progress.h include/engram_accel_recall.h \
    include/engram_accel_reports.h \
    include/engram_accel_vectors.h lib/libengram_accel.a lib/libengram_accel.so \
    "lib/$(readlink "$BUILD/libengram_accel.so")" lib/pkgconfig/engram-accel.pc \
    lib/systemd/system/engram-acceld.service lib/systemd/system/engram-acceld.socket \
    lib/systemd/system/engram-acceld@.service \
    lib/sysusers.d/engram-accel.conf lib/tmpfiles.d/engram-accel.conf \
    share/man/man8/engram-acceld.8 share/man/man8/engram-accel-gpu.8 \
    share/man/man1/engram-accel.1 \
    share/bash-completion/completions/engram-accel share/zsh/site-functions/_engram-accel \
    share/fish/vendor_completions.d/engram-accel.fish \
    share/doc/engram-accel/examples/prometheus/engram-accel.rules.yml \
    share/doc/engram-accel/examples/grafana/engram-accel.json \
    share/doc/engram-accel/examples/kubernetes/engram-accel.yaml \
    share/doc/engram-accel/examples/restart-steps.conf; do
    [ -s "$root/$file" ] || { echo "run_install: $file is missing"; exit 1; }
done
settings=$work/root/etc/engram-accel/engram-accel.json
"$root/bin/engram-acceld" --check-config --config "$settings"
grep -q '^ExecStart=/usr/local/bin/engram-acceld ' \
    "$root/lib/systemd/system/engram-acceld.service"
# An instance shares no file, socket or folder with the one service, and all else with it.
for line in 'ExecStart=/usr/local/bin/engram-acceld --config /etc/engram-accel/%i.json --socket /run/engram-accel-%i/engram-accel.sock' \
    'ExecReload=/usr/local/bin/engram-accel --socket /run/engram-accel-%i/engram-accel.sock reload' \
    'RuntimeDirectory=engram-accel-%i' 'StateDirectory=engram-accel-%i'; do
    grep -qxF "$line" "$root/lib/systemd/system/engram-acceld@.service" ||
        { echo "run_install: the instance's unit lacks $line"; exit 1; }
done
others=$(diff "$root/lib/systemd/system/engram-acceld.service" \
    "$root/lib/systemd/system/engram-acceld@.service" | grep -c '^>')
[ "$others" = 5 ] || { echo "run_install: $others lines of the instance's unit differ"; exit 1; }
grep -q 'limits.drain_ms' "$root/share/man/man8/engram-acceld.8"

# Only the GPU process may know of CUDA; the daemon finds it beside itself.
if ldd "$root/bin/engram-acceld" "$root/bin/engram-accel" | grep -iE 'cuda|nvidia|cublas|cufft'; then
    echo "run_install: the daemon or the tool links CUDA"
    exit 1
fi
[ -x "$root/bin/engram-accel-gpu" ] || { echo "run_install: engram-accel-gpu is no program"; exit 1; }

# The library shows the client's names alone.
if nm -D --defined-only "$root/lib/libengram_accel.so" | grep -vE ' ea_[a-z_]+$'; then
    echo "run_install: the shared library exports more than ea_ names"
    exit 1
fi

export PKG_CONFIG_PATH="$root/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$work/root"
flags=$(pkg-config --cflags --libs engram-accel)
# shellcheck disable=SC2086
gcc -std=c11 -Wall -Wextra -Wpedantic -Werror docs/examples/knn.c $flags -o "$work/knn"
echo '#include <engram_accel.h>
int main() { ea_options o = {}; ea_client *c = nullptr; return ea_open(&o, &c) || ea_graph_create(c, "g", nullptr); }' >"$work/x.cpp"
# shellcheck disable=SC2086
g++ -std=c++11 -Wall -Wextra -Wpedantic -Werror "$work/x.cpp" $flags -o "$work/cpp"

"$root/bin/engram-acceld" --socket "$work/socket" --set memory.max_mib=256 2>"$work/log" &
daemon=$!
tries=0
until "$root/bin/engram-accel" --socket "$work/socket" ping >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { cat "$work/log"; exit 1; }
    sleep 0.1
done
LD_LIBRARY_PATH="$root/lib" "$work/knn" "$work/socket" | tee "$work/answer"
head -3 "$work/answer" >"$work/hits"
printf '40  0.948683\n10  0.894427\n50  0.774597\n' | diff - "$work/hits"
kill "$daemon"
wait "$daemon"
daemon=

echo changed >"$settings"
run_make install-files
[ "$(cat "$settings")" = changed ] || { echo "run_install: settings were overwritten"; exit 1; }
run_make uninstall
left=$(find "$work/root" ! -type d | sed "s|$work/root||")
[ "$left" = /etc/engram-accel/engram-accel.json ] || { echo "left behind: $left"; exit 1; }
