/* sample: what the page shows of one moment, from two pages of /metrics: rates are per second
 * between them, and null where there was no page before or another daemon. Knows of no browser. */
import { buckets, elapsed, quantile, rises, rows, sums, value } from "./read.js";

/* Reasons for the CPU to run what a GPU would have run. */
const FALLBACK = "engram_gpu_fallback_total";

function each(map, change) {
    return new Map([...map].map(([key, v]) => [key, change(v)]));
}

function total(list) {
    return list.reduce((sum, row) => sum + row.value, 0);
}

function latencies(before, now, name) {
    const risen = rises(before, now, name + "_bucket");
    const by = new Map([["", risen]]);
    for (const row of risen) {
        const key = row.labels.operation;
        if (!by.has(key)) by.set(key, []);
        by.get(key).push(row);
    }
    return each(by, (list) => {
        const all = buckets(list);
        return { p50: quantile(0.5, all), p90: quantile(0.9, all), p99: quantile(0.99, all) };
    });
}

/* What each space has and does. Counters of the page before may be missing. */
function spaces(now, rate) {
    const out = new Map();
    const put = (member, list) => {
        for (const [space, v] of list) {
            if (!out.has(space)) out.set(space, {});
            out.get(space)[member] = v;
        }
    };
    const gauge = (member, name) => put(member, sums(rows(now, name), "memory_space"));
    const counter = (member, name) => put(member, rate(name, "memory_space"));
    gauge("host", "engram_accel_space_host_bytes");
    gauge("vram", "engram_accel_space_vram_bytes");
    gauge("line", "engram_accel_space_requests_in_line");
    gauge("connections", "engram_accel_space_connections");
    counter("requests", "engram_accel_space_requests_total");
    counter("errors", "engram_accel_space_errors_total");
    counter("refused", "engram_accel_space_refused_total");
    counter("queued", "engram_accel_space_queue_seconds_total");
    counter("ran", "engram_accel_space_run_seconds_total");
    return out;
}

const CARD = "engram_accel_gpu_";

/* Of each card its state and all that is told with the label gpu: gauges as they are, counters as
 * `totals` and as `rates`. */
function cards(now, rate) {
    const out = new Map();
    for (const row of rows(now, CARD + "state")) {
        const gpu = row.labels.gpu;
        if (!out.has(gpu)) out.set(gpu, { state: "–", gauges: new Map(), totals: new Map(),
                                          rates: new Map() });
        if (row.value === 1) out.get(gpu).state = row.labels.state;
    }
    for (const [name, list] of now) {
        if (!name.startsWith(CARD) || name === CARD + "state") continue;
        const counts = name.endsWith("_total");
        for (const row of list) {
            const card = out.get(row.labels.gpu);
            if (!card) continue;
            const more = Object.entries(row.labels).filter(([label]) => label !== "gpu");
            const key = name.slice(CARD.length) + more.map(([, v]) => " " + v).join("");
            card[counts ? "totals" : "gauges"].set(key, row.value);
        }
        if (counts)
            for (const [gpu, v] of rate(name, "gpu"))
                if (out.has(gpu)) out.get(gpu).rates.set(name.slice(CARD.length), v);
    }
    return out;
}

export function sample(before, now) {
    const time = before ? elapsed(before, now) : null;
    const rate = (name, label) => time === null
        ? each(sums(rows(now, name), label), () => null)
        : each(sums(rises(before, now, name), label), (v) => v / time);
    const all = (name) => time === null ? null : total(rises(before, now, name)) / time;
    const routes = time === null ? [] : rises(before, now, "engram_accel_routes_total");
    return {
        elapsed: time,
        uptime: value(now, "engram_accel_uptime_seconds"),
        ready: value(now, "engram_accel_ready"),
        requests: rate("engram_accel_requests_total", "operation"),
        failed: rate("engram_accel_request_errors_total", "operation"),
        latency: time === null ? new Map()
                               : latencies(before, now, "engram_accel_request_duration_seconds"),
        troubles: new Map([
            ["errors", all("engram_accel_request_errors_total")],
            ["refused for room", all("engram_accel_space_refused_total")],
            ["past their deadline", all("engram_accel_deadline_exceeded_total")],
            ["cancelled", all("engram_accel_cancelled_total")],
            ["from a GPU to the CPU", all(FALLBACK)],
        ]),
        routes: time === null ? rate("engram_accel_routes_total", "backend")
                              : each(sums(routes, "backend"), (v) => v / time),
        reasons: new Map(routes.map((row) => [row.labels.backend + " " + row.labels.reason,
                                              row.value])),
        waiting: new Map([
            ["in line", value(now, "engram_accel_requests_in_line")],
            ["not answered yet", value(now, "engram_accel_requests_in_flight")],
        ]),
        memory: new Map([
            ["in use", value(now, "engram_accel_memory_used_bytes")],
            ["kept for reuse", value(now, "engram_accel_memory_cached_bytes")],
        ]),
        memoryMax: value(now, "engram_accel_memory_max_bytes"),
        connections: value(now, "engram_accel_connections"),
        slow: value(now, "engram_accel_slow_requests_total"),
        vram: sums(rows(now, "engram_accel_space_vram_bytes"), "memory_space"),
        busy: rate("engram_accel_gpu_run_seconds_total", "gpu"),
        spaces: spaces(now, rate),
        cards: cards(now, rate),
    };
}

/* ---------------------------------------------------------------- several moments */

/* Of Maps in moments (pick gives one): series {name, values}, those of the greatest means first, at
 * most `most`; what is beyond them is summed as `rest`, if that is a name. A value that a moment's
 * Map lacks is null where the moment has no rates, and 0 elsewhere. */
export function ranked(moments, pick, most, rest) {
    const maps = moments.map(pick);
    const names = [...new Set(maps.flatMap((map) => [...map.keys()]))];
    const series = names.map((name) => {
        const values = maps.map((map) => map.has(name) ? map.get(name) : map.size ? 0 : null);
        const known = values.filter((v) => v !== null);
        return { name, values, mean: known.reduce((a, b) => a + b, 0) / (known.length || 1) };
    });
    series.sort((a, b) => b.mean - a.mean || (a.name < b.name ? -1 : 1));
    const idle = series.findIndex((s) => s.mean === 0);
    if (idle > 0) series.length = idle; /* what was 0 all the time says nothing beside others */
    if (series.length <= most) return series;
    const shown = series.slice(0, rest ? most - 1 : most);
    if (!rest) return shown;
    const others = series.slice(most - 1);
    const values = maps.map((_, i) => {
        const known = others.map((s) => s.values[i]).filter((v) => v !== null);
        return known.length ? known.reduce((a, b) => a + b, 0) : null;
    });
    return [...shown, { name: rest, values }];
}

/* Shares of the reasons of all requests in the moments of the last `span` seconds: [{backend,
 * reason, rate, share}], the largest first. */
export function reasons(moments, span) {
    const risen = new Map();
    let time = 0, all = 0;
    for (let i = moments.length; i-- > 0 && time < span;) {
        if (moments[i].elapsed === null) continue;
        time += moments[i].elapsed;
        for (const [key, v] of moments[i].reasons) {
            risen.set(key, (risen.get(key) || 0) + v);
            all += v;
        }
    }
    return [...risen].filter(([, v]) => v > 0).sort((a, b) => b[1] - a[1]).map(([key, v]) => {
        const [backend, reason] = key.split(" ");
        return { backend, reason, rate: v / time, share: v / all };
    });
}
