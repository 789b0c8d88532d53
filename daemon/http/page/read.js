/* read: what /metrics says, as numbers: rates between two of its pages, quantiles of histograms, and
 * texts for people. Nothing here knows of a browser; tests/integration/page_read.mjs tries it. */

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)",?/g;
const ESCAPES = { "\\n": "\n", "\\\\": "\\", '\\"': '"' };

/* Prometheus' text as a Map: name -> [{labels, key, value}]. key stands for the labels. */
export function parse(text) {
    const page = new Map();
    for (const line of text.split("\n")) {
        const found = line[0] === "#" ? null : LINE.exec(line);
        if (!found) continue;
        const labels = {};
        for (const [, name, value] of (found[2] || "").matchAll(LABEL))
            labels[name] = value.replace(/\\[n\\"]/g, (e) => ESCAPES[e]);
        if (!page.has(found[1])) page.set(found[1], []);
        page.get(found[1]).push({
            labels, key: found[2] || "", value: found[3] === "+Inf" ? Infinity : Number(found[3]),
        });
    }
    return page;
}

/* Of a name without labels, or null. */
export function value(page, name) {
    const rows = page.get(name);
    return rows && rows.length ? rows[0].value : null;
}

export function rows(page, name) {
    return page.get(name) || [];
}

/* Sums of rows by one label: a Map. */
export function sums(list, label) {
    const out = new Map();
    for (const row of list)
        out.set(row.labels[label], (out.get(row.labels[label]) || 0) + row.value);
    return out;
}

/* Seconds between two pages of one life of the daemon; null if there were two lives, or no time. */
export function elapsed(before, now) {
    const [a, b] = [before, now].map((page) => value(page, "engram_accel_uptime_seconds"));
    const [s, t] = [before, now].map((page) => value(page, "process_start_time_seconds"));
    if (a === null || b === null || b <= a) return null;
    if (s !== null && t !== null && Math.abs(s - t) > 5) return null;
    return b - a;
}

/* How much each counter of a name rose between two pages of one life: rows with value the rise. A
 * row that was not there was 0; a counter that fell, which none should, did not rise. */
export function rises(before, now, name) {
    const old = new Map(rows(before, name).map((row) => [row.key, row.value]));
    return rows(now, name).map((row) => ({
        labels: row.labels, key: row.key,
        value: Math.max(0, row.value - (old.get(row.key) || 0)),
    }));
}

/* Of a histogram's buckets (cumulative, with label le) in any order and of any number of series: the
 * bounds, rising, with what all series have up to each. */
export function buckets(list) {
    const by = new Map();
    for (const row of list) {
        const le = row.labels.le === "+Inf" ? Infinity : Number(row.labels.le);
        by.set(le, (by.get(le) || 0) + row.value);
    }
    return [...by].sort((a, b) => a[0] - b[0]).map(([le, count]) => ({ le, count }));
}

/* As Prometheus' histogram_quantile: within a bucket all values are taken to lie evenly; beyond the
 * last bound it is that bound. null: nothing was observed. */
export function quantile(q, list) {
    const all = list.length ? list[list.length - 1].count : 0;
    if (!(all > 0)) return null;
    const rank = q * all;
    const at = list.findIndex((bucket) => bucket.count >= rank);
    if (list[at].le === Infinity) return at > 0 ? list[at - 1].le : null;
    const below = at > 0 ? list[at - 1] : { le: 0, count: 0 };
    const here = list[at].count - below.count;
    return here > 0 ? below.le + (list[at].le - below.le) * (rank - below.count) / here
                    : list[at].le;
}

/* ---------------------------------------------------------------- texts */

/* With three digits or so: 0.0123, 1.23, 12.3, 123, 12,345. */
export function number(v) {
    if (v === null || v === undefined || Number.isNaN(v)) return "–";
    if (!Number.isFinite(v)) return "∞";
    const size = Math.abs(v);
    if (size === 0) return "0";
    if (size >= 99.95 || Number.isInteger(v)) return Math.round(v).toLocaleString("en-US");
    return String(Number(v.toPrecision(size < 1 ? 2 : 3)));
}

function scaled(v, steps, base) {
    if (v === null || v === undefined || Number.isNaN(v)) return "–";
    let at = 0;
    while (at + 1 < steps.length && Math.abs(v) >= base * 0.9995) {
        v /= base;
        at++;
    }
    return number(v) + (steps[at] ? " " + steps[at] : "");
}

export function bytes(v) {
    return scaled(v, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], 1024);
}

/* "49.7 of 384 MiB", or "900 KiB of 1.5 GiB". */
export function share(v, all) {
    const [a, b] = [bytes(v).split(" "), bytes(all).split(" ")];
    return (a[1] === b[1] ? a[0] : a.join(" ")) + " of " + b.join(" ");
}

export function count(v) {
    return v !== null && Math.abs(v) < 10000 ? number(v) : scaled(v, ["", "k", "M", "G", "T"], 1000);
}

export function seconds(v) {
    if (v === null || v === undefined || Number.isNaN(v)) return "–";
    if (v === 0) return "0 s";
    if (v < 120) return v < 0.9995 ? scaled(v * 1e6, ["µs", "ms"], 1000) : number(v) + " s";
    return duration(v);
}

/* 3 d 4 h, 4 h 10 min, 10 min 5 s, 5 s: the two largest parts. */
export function duration(v) {
    let left = Math.floor(v);
    const parts = [];
    for (const [size, name] of [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]) {
        if (left >= size || parts.length) parts.push(Math.floor(left / size) + " " + name);
        left %= size;
    }
    return parts.length ? parts.slice(0, 2).join(" ") : "0 s";
}

export function percent(v) {
    return v === null || v === undefined || Number.isNaN(v) ? "–" : number(100 * v) + " %";
}

/* A value of a metric, by the unit at the end of its name. */
export function measured(name, v) {
    const plain = name.replace(/_total$/, "");
    if (/_bytes$/.test(plain)) return bytes(v);
    if (/_seconds$/.test(plain)) return seconds(v);
    if (/_celsius$/.test(plain)) return number(v) + " °C";
    if (/_watts$/.test(plain)) return number(v) + " W";
    if (/_joules$/.test(plain)) return number(v) + " J";
    if (/_hertz$/.test(plain)) return scaled(v, ["Hz", "kHz", "MHz", "GHz"], 1000);
    if (/_ratio$/.test(plain)) return percent(v);
    return count(v);
}

/* ---------------------------------------------------------------- scales */

/* Round values from 0 to at least `top`, some `wanted` of them: steps of 1, 2 or 5 times a power of
 * `base` (of bytes: of 2). */
export function ticks(top, wanted, binary) {
    if (!(top > 0)) top = 1;
    let step;
    if (binary) {
        step = 2 ** Math.ceil(Math.log2(top / wanted));
    } else {
        const power = 10 ** Math.floor(Math.log10(top / wanted));
        step = [1, 2, 5, 10].map((n) => n * power).find((s) => top / s <= wanted);
    }
    const out = [];
    for (let i = 0; i * step < top * 1.0001 || out.length < 2; i++) out.push(i * step);
    if (out[out.length - 1] < top) out.push(out.length * step);
    return out;
}

/* Powers of ten around all values, with 2 and 5 between where that is one decade: of a scale of
 * logarithms. */
export function decades(low, high) {
    const from = Math.floor(Math.log10(low) + 1e-9);
    const to = Math.max(from + 1, Math.ceil(Math.log10(high) - 1e-9));
    if (to === from + 1) return [1, 2, 5, 10].map((n) => n * Number("1e" + from));
    return Array.from({ length: to - from + 1 }, (_, i) => Number("1e" + (from + i)));
}
