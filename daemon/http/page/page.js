/* page: asks the daemon every two seconds while the page is seen, keeps ten minutes, and shows
 * them. Texts of clients (names of spaces, collections, peers) only ever become text. */
import { Chart, SERIES_MAX, html, tell } from "./chart.js";
import { bytes, count, duration, number, parse, percent, rows, seconds, share, value } from "./read.js";
import { ranked, reasons, sample } from "./sample.js";
import { OPERATIONS, Reasons, SLOW, SPACES, Table, showCards, words } from "./tables.js";

const EVERY_MS = 2000, FIRST_MS = 1000, PATIENCE_MS = 5000;
const KEPT = 300; /* moments: ten minutes */
const SPANS = [30, 60, 90, 120, 180, 300, 600]; /* seconds that a chart may show */
const REASONS_S = 60, SPACES_SHOWN = 30;

const WHY = {
    loading: "it loads its snapshot",
    stopping: "it is stopping",
    loop: "its loop does not turn",
    workers: "its workers do not answer",
    probe: "its workers answer wrong, or there is no memory to ask them",
};

const element = (id) => document.getElementById(id);
const state = {
    moments: [], last: null, slowSeen: null, slowAt: 0, slow: [],
    paused: false, over: false, busy: false, timer: 0, lostSince: null,
};

/* ---------------------------------------------------------------- what is shown */

const space = (name) => name === "other" ? "other spaces" : name;
const perSecond = (v) => count(v) + (v === null ? "" : "/s");
const charts = [
    { id: "requests", title: "Requests", help: "answered a second, by operation",
      format: perSecond, scale: "linear", rename: words,
      series: (m) => ranked(m, (one) => one.requests, SERIES_MAX, "all others") },
    { id: "latency", title: "Latency", help: "from a complete request to its reply",
      format: seconds, scale: "log", empty: "no request was timed yet",
      series: (m) => ["p50", "p90", "p99"].map((name) => ({
          name, values: m.map((one) => one.latency.get("")?.[name] ?? null) })) },
    { id: "latencies", title: "Latency by operation", help: "99 of 100 requests took no longer",
      format: seconds, scale: "log", rename: words, empty: "no request was timed yet",
      series: (m) => busiest(m).map((name) => ({
          name, values: m.map((one) => one.latency.get(name)?.p99 ?? null) })) },
    { id: "routes", title: "Routes", help: "requests a second that each backend ran",
      format: perSecond, scale: "linear", rename: (name) => name === "both" ? name
                                                                        : name.toUpperCase(),
      series: (m) => ["cpu", "gpu", "both"].map((name) => ({
          name, values: m.map((one) => one.routes.get(name) ?? null) })) },
    { id: "reasons" },
    { id: "troubles", title: "What went wrong", help: "requests a second",
      format: perSecond, scale: "linear",
      series: (m) => named(m, (one) => one.troubles) },
    { id: "waiting", title: "Waiting", help: "requests that wait for a backend, and all under way",
      format: number, scale: "count",
      series: (m) => named(m, (one) => one.waiting) },
    { id: "memory", title: "Memory", help: "of the heap: collections, requests, results",
      format: bytes, scale: "binary",
      series: (m) => named(m, (one) => one.memory) },
    { id: "vram", title: "VRAM by space", help: "of replicas, on all GPUs",
      format: bytes, scale: "binary", rename: space,
      series: (m) => ranked(m, (one) => one.vram, SERIES_MAX, "all others") },
    { id: "busy", title: "GPUs busy", help: "share of the time with a request on the card",
      format: percent, scale: "ratio", rename: (n) => "gpu" + n, empty: "no GPU is in use",
      series: (m) => ranked(m, (one) => one.busy, SERIES_MAX) },
];

function named(moments, pick) {
    const names = moments.length ? [...pick(moments[0]).keys()] : [];
    return names.map((name) => ({ name, values: moments.map((one) => pick(one).get(name)) }));
}

function busiest(moments) {
    const timed = new Set(moments.flatMap((one) => [...one.latency].filter(
        ([, l]) => l.p99 !== null).map(([name]) => name)));
    return ranked(moments, (one) => one.requests, 99).map((s) => s.name)
        .filter((name) => name && timed.has(name)).slice(0, SERIES_MAX);
}

for (const c of charts)
    c.drawn = c.id === "reasons"
        ? new Reasons({ id: c.id, title: "Reasons", help: "why requests ran where, in the last minute" },
                      element("charts"))
        : new Chart(c, element("charts"));
element("charts").append(element("cards"));
const tables = {
    operations: new Table(element("operations"), "Operations", OPERATIONS, "No request yet."),
    spaces: new Table(element("spaces"), "Spaces", SPACES, "No space yet."),
    slow: new Table(element("slow-list"), "Slow requests, the newest first", SLOW,
                    "None took observe.slow_ms or longer."),
};

function showFigures(now) {
    const p = now.latency.get("");
    const all = now.elapsed === null ? null : [...now.requests.values()].reduce((a, b) => a + b, 0);
    const vram = [...now.cards.values()].reduce((sum, card) => [
        sum[0] + (card.gauges.get("replica_bytes") || 0) + (card.gauges.get("slab_bytes") || 0),
        sum[1] + (card.gauges.get("budget_bytes") || 0)], [0, 0]);
    const list = [
        ["requests", perSecond(all)],
        ["errors", perSecond(now.troubles.get("errors"))],
        ["p99", seconds(p?.p99)],
        ["in line", number(now.waiting.get("in line"))],
        ["connections", number(now.connections)],
        ["memory", share(now.memory.get("in use"), now.memoryMax)],
        ["VRAM", vram[1] ? share(vram[0], vram[1]) : "no GPU"],
        ["slow requests", number(now.slow)],
    ];
    const parent = element("figures");
    if (!parent.children.length)
        parent.append(...list.map(([name]) => html("div", {}, html("dt", {}, name), html("dd"))));
    list.forEach(([, text], i) => tell(parent.children[i].lastChild, text));
}

function showCharts() {
    const m = state.moments, now = m[m.length - 1];
    const times = m.map((one) => (now.at - one.at) / 1000);
    const span = SPANS.find((s) => s >= times[0]) || SPANS[SPANS.length - 1];
    const marks = m.map((one, i) => ({ time: times[i], text: one.mark })).filter((one) => one.text);
    for (const c of charts) {
        if (c.id === "reasons") c.drawn.draw(reasons(m, REASONS_S));
        else c.drawn.draw(times, c.series(m), marks, span);
    }
}

function showTables(now) {
    const operations = [...now.requests].map(([name, rate]) => ({
        name, rate, failed: now.failed.get(name), ...now.latency.get(name) }));
    operations.sort((a, b) => b.rate - a.rate || (a.name < b.name ? -1 : 1));
    tables.operations.show(operations);
    const spaces = [...now.spaces].map(([name, s]) => ({ name: space(name), ...s }))
        .filter((s) => s.name !== "other spaces" || s.requests || s.line || s.vram);
    spaces.sort((a, b) => (b.requests || 0) - (a.requests || 0) || (a.name < b.name ? -1 : 1));
    tables.spaces.show(spaces.slice(0, SPACES_SHOWN));
    element("no-cards").hidden = [...now.cards.values()].some((card) => card.state !== "absent");
    showCards(element("card-list"), now.cards);
    showSlow();
}

function showSlow() {
    const since = (performance.now() - state.slowAt) / 1000, shown = state.slow.length;
    tell(element("slow-help"), shown && shown < state.slowSeen
        ? `the newest ${shown} of ${number(state.slowSeen)} that took observe.slow_ms or longer` : "");
    tables.slow.show(state.slow.map((r) => ({ ...r, ago: r.ago_ns / 1e9 + since })));
}

function show() {
    const now = state.moments[state.moments.length - 1];
    showFigures(now);
    showCharts();
    showTables(now);
}

/* ---------------------------------------------------------------- how it is */

function badge(kind, text) {
    element("health").className = "badge " + kind;
    tell(element("health"), text);
    document.title = (kind === "bad" ? "✕ " : "") + "Engram Accel";
}

function complain(text) {
    element("trouble").hidden = !text;
    tell(element("trouble"), text);
}

async function judge(now, page) {
    const version = rows(page, "engram_accel_build_info")[0]?.labels.version ?? "?";
    tell(element("about"), `version ${version}, up for ${duration(now.uptime)}`);
    complain("");
    element("unobserved").hidden = value(page, "engram_accel_observed") !== 0;
    if (now.ready === 1) return badge("good", "✓ ready");
    const word = (await get("readyz")).text.trim();
    return badge(word === "ready" ? "good" : "bad",
                 word === "ready" ? "✓ ready" : "✕ not ready: " + (WHY[word] || word));
}

/* The daemon gave no numbers: what was drawn stays, and a gap follows it. */
function lose(text, short) {
    if (state.lostSince === null) state.lostSince = Date.now();
    const since = (Date.now() - state.lostSince) / 1000;
    badge("bad", "✕ " + short);
    complain(`${text}, for ${duration(since)} (since ` +
             `${new Date(state.lostSince).toLocaleTimeString()}). What stands below is from before; ` +
             "asking again every two seconds.");
}

/* ---------------------------------------------------------------- asking */

/* The page's own address may carry a name and a token, with which nothing can be fetched. */
async function get(path) {
    const reply = await fetch(new URL(path, location.origin + location.pathname), {
        cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
    return { status: reply.status, text: await reply.text() };
}

async function ask() {
    const { status, text } = await get("metrics");
    if (status === 401) {
        state.over = true; /* a browser would ask for the token again and again */
        badge("bad", "✕ no longer allowed");
        return complain("The daemon's token has changed. Reload this page to say the new one.");
    }
    if (status !== 200) return lose("The daemon gives no numbers: " +
                                    (WHY[text.trim()] || "status " + status), text.trim());
    const page = parse(text), now = sample(state.last, page);
    now.at = performance.now();
    if (state.last && now.elapsed === null) now.mark = "restarted";
    else if (state.lostSince !== null) now.mark = "answers again";
    if (now.mark && state.moments.length) state.moments.push(gap(now));
    state.last = page;
    state.lostSince = null;
    state.moments.push(now);
    state.moments.splice(0, state.moments.length - KEPT);
    if (now.slow !== state.slowSeen || now.mark) await askSlow(now.slow);
    await judge(now, page);
    return show();
}

/* A moment of which nothing is known, just before `now`. */
function gap(now) {
    const none = (map) => new Map([...map.keys()].map((key) => [key, null]));
    return { ...now, mark: undefined, elapsed: null, at: now.at - 1, requests: none(now.requests),
             latency: new Map(), troubles: none(now.troubles), routes: none(now.routes),
             reasons: new Map(), waiting: none(now.waiting), memory: none(now.memory),
             vram: none(now.vram), busy: none(now.busy) };
}

async function askSlow(total) {
    const { status, text } = await get("slow.json");
    if (status !== 200) return;
    state.slow = JSON.parse(text).requests;
    state.slowAt = performance.now();
    state.slowSeen = total;
}

async function turn() {
    clearTimeout(state.timer);
    if (state.busy || state.over || state.paused || document.hidden) return;
    state.busy = true;
    const begun = performance.now(), first = state.moments.length < 2;
    try {
        await ask();
    } catch (error) {
        lose(error.name === "TimeoutError" ? "The daemon is too slow to answer"
                                           : "The daemon does not answer", "no answer");
    }
    state.busy = false;
    const wait = (first ? FIRST_MS : EVERY_MS) - (performance.now() - begun);
    state.timer = setTimeout(turn, Math.max(200, wait));
}

element("pause").addEventListener("click", () => {
    state.paused = !state.paused;
    element("pause").setAttribute("aria-pressed", String(state.paused));
    tell(element("pause"), state.paused ? "Go on" : "Pause");
    turn();
});
document.addEventListener("visibilitychange", turn);
turn();
