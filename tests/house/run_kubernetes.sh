#!/bin/sh
# run_kubernetes.sh: the example for Kubernetes is YAML of the shape that it should have: its settings
# are settings of the daemon, its probes are commands of the tool, what containers mount are volumes,
# and nobody runs as root.
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build/release}
/usr/bin/python3 -c 'import yaml' 2>/dev/null ||
    { echo "SKIP run_kubernetes: there is no python3-yaml"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
/usr/bin/python3 -B - "$work" config/kubernetes/*.yaml <<'END'
import sys

import yaml

pages = [page for name in sys.argv[2:] for page in yaml.safe_load_all(open(name))]
kinds = {page["kind"]: page for page in pages}
assert sorted(kinds) == ["ConfigMap", "StatefulSet"], sorted(kinds)
for page in pages:
    assert page["apiVersion"] and page["metadata"]["name"], page
for name, text in kinds["ConfigMap"]["data"].items():
    open(f"{sys.argv[1]}/{name}", "w").write(text)
whole = kinds["StatefulSet"]["spec"]
assert whole["selector"]["matchLabels"] == whole["template"]["metadata"]["labels"]
pod = whole["template"]["spec"]
assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
volumes = {v["name"] for v in pod["volumes"] + [t["metadata"] for t in whole["volumeClaimTemplates"]]}
asked = open(f"{sys.argv[1]}/probes", "w")
for container in pod["containers"]:
    assert {m["name"] for m in container["volumeMounts"]} <= volumes, container["name"]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if probe in container or container["name"] == "engram-acceld":
            command = container[probe]["exec"]["command"]
            assert container[probe]["timeoutSeconds"] > 0
            if command[0] == "engram-accel":
                print(" ".join(command[1:]), file=asked)
            else:
                open(f"{sys.argv[1]}/ready", "w").write(command[2])
asked.close()
END
"$build/engram-acceld" --check-config --config "$work/engram-accel.json" >/dev/null
# The probes of a daemon that is not there fail, and of one that is they do not.
ENGRAM_ACCEL_SOCKET=$work/socket
export ENGRAM_ACCEL_SOCKET
while read -r probe; do
    # shellcheck disable=SC2086
    "$build/engram-accel" $probe >/dev/null 2>&1 && { echo "no daemon: $probe says yes"; exit 1; }
done <"$work/probes"
# An address of this process's own, so that nobody else has the port there.
address=127.$(($$ / 65536 % 256)).$(($$ / 256 % 256)).$(($$ % 256))
"$build/engram-acceld" --config "$work/engram-accel.json" --socket "$work/socket" \
    --set persist.dir=none --set memory.max_mib=256 --set "metrics.listen=$address:7424" \
    2>"$work/log" &
daemon=$!
trap 'kill $daemon 2>/dev/null || true; rm -rf "$work"' EXIT
"$build/engram-accel" ping --wait 60 >/dev/null || { cat "$work/log"; exit 1; }
while read -r probe; do
    # shellcheck disable=SC2086
    "$build/engram-accel" $probe >/dev/null || { echo "probe fails: $probe"; exit 1; }
done <"$work/probes"
sed -i "s/127.0.0.1/$address/" "$work/ready"
tries=0
until bash -c "$(cat "$work/ready")"; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { echo "the readiness probe fails"; exit 1; }
    sleep 0.1
done
kill $daemon
wait $daemon
if bash -c "$(cat "$work/ready")" 2>/dev/null; then echo "no daemon, and ready"; exit 1; fi
