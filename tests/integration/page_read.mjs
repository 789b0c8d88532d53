// page_read.mjs FOLDER: what the status page makes of /metrics, in a Node of any version from 16 on:
// its parsing, rates, quantiles, texts and scales. FOLDER has the page's scripts as modules.
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";

const folder = pathToFileURL(process.argv[2] + "/");
const read = await import(new URL("read.js", folder));
const { sample, ranked, reasons } = await import(new URL("sample.js", folder));

function parses() {
    const page = read.parse('# HELP a x\n# TYPE a counter\na 3\nb{x="1",y="q\\"\\\\\\n,}"} 2.5\n' +
                            'c_bucket{le="+Inf"} 7\nd +Inf\n\nnonsense\nb{x="2"} 1\n');
    assert.equal(read.value(page, "a"), 3);
    assert.equal(read.value(page, "none"), null);
    assert.deepEqual(read.rows(page, "b")[0].labels, { x: "1", y: 'q"\\\n,}' });
    assert.equal(read.value(page, "d"), Infinity);
    assert.deepEqual([...read.sums(read.rows(page, "b"), "x")], [["1", 2.5], ["2", 1]]);
    assert.equal(page.size, 4);
}

const at = (uptime, started, more = "") => read.parse(
    `engram_accel_uptime_seconds ${uptime}\nprocess_start_time_seconds ${started}\n${more}`);

function lives() {
    assert.equal(read.elapsed(at(10, 100), at(12.5, 100)), 2.5);
    assert.equal(read.elapsed(at(10, 100), at(3, 107)), null, "another life, younger");
    assert.equal(read.elapsed(at(10, 100), at(20, 400)), null, "another life, older by now");
    assert.equal(read.elapsed(at(10, 100), at(10, 100)), null, "the same page again");
    const [a, b] = [at(1, 1, 'n{k="a"} 5\nn{k="f"} 9\n'), at(2, 1, 'n{k="a"} 8\nn{k="new"} 4\nn{k="f"} 2\n')];
    assert.deepEqual(read.rises(a, b, "n").map((r) => r.value), [3, 4, 0]);
}

function quantiles() {
    const of = (...pairs) => pairs.map(([le, count]) => ({ le, count }));
    const h = of([0.1, 50], [0.5, 90], [1, 100], [Infinity, 100]);
    assert.equal(read.quantile(0.5, h), 0.1);
    assert.equal(read.quantile(0.25, h), 0.05);
    assert.ok(Math.abs(read.quantile(0.7, h) - 0.3) < 1e-12);
    assert.ok(Math.abs(read.quantile(0.99, h) - 0.95) < 1e-12);
    assert.equal(read.quantile(0.9, of([1, 0], [2, 0], [Infinity, 5])), 2, "beyond the last bound");
    assert.equal(read.quantile(0.5, of([Infinity, 5])), null);
    assert.equal(read.quantile(0.5, of([1, 0], [Infinity, 0])), null, "nothing was observed");
    assert.equal(read.quantile(0.5, []), null);
    const series = read.parse('h{b="x",le="1"} 2\nh{b="x",le="+Inf"} 3\nh{b="y",le="+Inf"} 4\nh{b="y",le="1"} 1\n');
    assert.deepEqual(read.buckets(read.rows(series, "h")), of([1, 3], [Infinity, 7]));
}

function texts() {
    const said = (f, ...pairs) => pairs.forEach(([v, text]) => assert.equal(f(v), text));
    said(read.number, [null, "–"], [NaN, "–"], [0, "0"], [12345.6, "12,346"], [1.2345, "1.23"],
         [0.01234, "0.012"], [99.96, "100"], [7, "7"], [Infinity, "∞"]);
    said(read.bytes, [0, "0 B"], [1023, "1,023 B"], [1024, "1 KiB"], [1536, "1.5 KiB"],
         [1024 ** 3 * 1.5, "1.5 GiB"], [1024 ** 2 - 1, "1 MiB"]);
    said(read.count, [null, "–"], [9999, "9,999"], [12345, "12.3 k"], [2.5e6, "2.5 M"]);
    said(read.seconds, [null, "–"], [0, "0 s"], [0.000143, "143 µs"], [0.00475, "4.75 ms"],
         [0.9999, "1 s"], [0.9991, "999 ms"], [1.5, "1.5 s"], [150, "2 min 30 s"]);
    said(read.duration, [0, "0 s"], [59, "59 s"], [3600, "1 h 0 min"], [90061, "1 d 1 h"]);
    said(read.percent, [0.1234, "12.3 %"], [1, "100 %"], [null, "–"]);
    assert.equal(read.share(1024 ** 2, 1024 ** 2 * 4), "1 of 4 MiB");
    assert.equal(read.share(1024, 1024 ** 2), "1 KiB of 1 MiB");
    for (const [name, v, text] of [
        ["a_temperature_celsius", 41, "41 °C"], ["a_power_watts", 312.4, "312 W"],
        ["clock_hertz", 1.98e9, "1.98 GHz"], ["use_ratio", 0.5, "50 %"], ["x_bytes_total", 2048, "2 KiB"],
        ["plain", 3, "3"]])
        assert.equal(read.measured(name, v), text);
}

function scales() {
    assert.deepEqual(read.ticks(4, 4, false), [0, 1, 2, 3, 4]);
    assert.deepEqual(read.ticks(270, 4, false), [0, 100, 200, 300]);
    assert.deepEqual(read.ticks(0, 4, false), [0, 0.5, 1]);
    assert.deepEqual(read.ticks(3 * 1024, 4, true), [0, 1024, 2048, 3072]);
    for (let top = 1e-6; top < 1e12; top *= 1.37)
        for (const binary of [false, true]) {
            const list = read.ticks(top, 4, binary);
            assert.ok(list.length >= 2 && list.length <= 6 && list[list.length - 1] >= top * 0.9999,
                      `${top}: ${list}`);
        }
    assert.deepEqual(read.decades(0.0002, 0.03), [1e-4, 1e-3, 1e-2, 1e-1]);
    assert.deepEqual(read.decades(0.002, 0.002), [0.001, 0.002, 0.005, 0.01]);
    assert.deepEqual(read.decades(1, 10), [1, 2, 5, 10]);
}

function samples() {
    const text = (n, bucket) => 'engram_accel_requests_total{operation="knn"} ' + n +
        '\nengram_accel_routes_total{backend="gpu",reason="forced"} ' + n +
        `\nengram_accel_request_duration_seconds_bucket{operation="knn",backend="gpu",le="0.01"} ${bucket}` +
        `\nengram_accel_request_duration_seconds_bucket{operation="knn",backend="gpu",le="+Inf"} ${n}` +
        '\nengram_accel_space_requests_total{memory_space="a"} ' + n +
        '\nengram_accel_space_host_bytes{memory_space="a"} 77' +
        '\nengram_accel_gpu_state{gpu="0",state="ready"} 1\nengram_accel_gpu_state{gpu="0",state="down"} 0' +
        `\nengram_accel_gpu_runs_total{gpu="0"} ${n}\nengram_accel_gpu_temperature_celsius{gpu="0"} 41` +
        '\nengram_accel_gpu_ecc_total{gpu="0",kind="single"} 2\n';
    const first = sample(null, at(5, 1, text(100, 50)));
    assert.equal(first.elapsed, null);
    assert.equal(first.requests.get("knn"), null, "no rate without a page before");
    assert.equal(first.spaces.get("a").host, 77);
    const now = sample(at(5, 1, text(100, 50)), at(7, 1, text(300, 250)));
    assert.equal(now.requests.get("knn"), 100);
    assert.equal(now.routes.get("gpu"), 100);
    assert.equal(now.spaces.get("a").requests, 100);
    assert.ok(Math.abs(now.latency.get("").p50 - 0.005) < 1e-12);
    const card = now.cards.get("0");
    assert.equal(card.state, "ready");
    assert.equal(card.rates.get("runs_total"), 100);
    assert.equal(card.gauges.get("temperature_celsius"), 41);
    assert.equal(card.totals.get("ecc_total single"), 2);
    const reset = sample(at(7, 1, text(300, 250)), at(1, 9, text(3, 2)));
    assert.equal(reset.requests.get("knn"), null, "no rate over a restart");
    assert.deepEqual(reasons([first, now, reset], 60),
                     [{ backend: "gpu", reason: "forced", rate: 100, share: 1 }]);
    assert.deepEqual(reasons([first], 60), []);
}

function rankings() {
    const moments = [{ m: new Map([["a", 1], ["b", 5], ["c", 3], ["z", 0]]) }, { m: new Map() },
                     { m: new Map([["b", 7], ["c", null]]) }];
    const pick = (one) => one.m;
    assert.deepEqual(ranked(moments, pick, 2, "rest").map((s) => [s.name, s.values]),
                     [["b", [5, null, 7]], ["rest", [4, null, 0]]]);
    assert.deepEqual(ranked(moments, pick, 9).map((s) => s.name), ["b", "c", "a"]);
    assert.deepEqual(ranked([{ m: new Map([["a", 0], ["b", 0]]) }], pick, 9).map((s) => s.name),
                     ["a", "b"], "all of them are 0");
}

for (const part of [parses, lives, quantiles, texts, scales, samples, rankings]) part();
console.log("page: read.js and sample.js are right");
