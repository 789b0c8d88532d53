/* tables: the page's tables, bars and cards; a cell is written only where its text has changed, so
 * that what somebody selects stays selected. */
import { html, tell } from "./chart.js";
import { bytes, count, duration, measured, number, percent, seconds } from "./read.js";

export class Table {
    /* columns: {name, text (of a row), number: true where it is one, wide: true where a narrow
     * window leaves it out}. */
    constructor(parent, caption, columns, empty) {
        this.columns = columns;
        this.body = html("tbody");
        this.empty = html("p", { class: "empty" }, empty);
        const head = columns.map((c) => html("th", { scope: "col", class: this.kind(c) }, c.name));
        this.table = html("table", {}, html("caption", { class: "unseen" }, caption),
                          html("thead", {}, html("tr", {}, ...head)), this.body);
        parent.append(this.table, this.empty);
    }

    kind(c) {
        return (c.number ? "number" : "text") + (c.wide ? " wide" : "");
    }

    show(rows) {
        this.table.hidden = !rows.length;
        this.empty.hidden = rows.length > 0;
        while (this.body.children.length > rows.length) this.body.lastChild.remove();
        rows.forEach((row, i) => {
            if (!this.body.children[i])
                this.body.append(html("tr", {}, ...this.columns.map((c, n) =>
                    n ? html("td", { class: this.kind(c), "data-name": c.name })
                      : html("th", { scope: "row", class: this.kind(c) }))));
            this.columns.forEach((c, n) => tell(this.body.children[i].children[n], c.text(row)));
        });
    }
}

/* A bar of a share, with its text beside it; the text says all. */
function bar(share) {
    const inner = html("span", { class: "part" });
    inner.style.setProperty("width", (100 * Math.max(0, Math.min(1, share || 0))).toFixed(1) + "%");
    return html("span", { class: "bar", "aria-hidden": "true" }, inner);
}

export function words(name) {
    return name.replace(/_/g, " ");
}

/* ---------------------------------------------------------------- reasons */

export class Reasons {
    constructor(o, parent) {
        this.body = html("tbody");
        this.empty = html("p", { class: "empty" }, "No request was routed in the last minute.");
        this.figure = html("figure", { id: "chart-" + o.id, "data-chart": o.id },
            html("figcaption", {}, html("h2", {}, o.title)), html("p", { class: "help" }, o.help),
            html("table", { class: "bars" }, html("thead", { class: "unseen" }, html("tr", {},
                ...["where", "why", "share", "a second"].map(
                    (text) => html("th", { scope: "col" }, text)))), this.body), this.empty);
        parent.append(this.figure);
    }

    draw(list) {
        this.figure.dataset.points = list.length;
        this.empty.hidden = list.length > 0;
        this.body.replaceChildren(...list.slice(0, 9).map((r) => html("tr", {},
            html("th", { scope: "row" }, r.backend.toUpperCase() === "BOTH" ? "both"
                                                                            : r.backend.toUpperCase()),
            html("td", {}, words(r.reason), bar(r.share)),
            html("td", { class: "number" }, percent(r.share)),
            html("td", { class: "number" }, count(r.rate) + "/s"))));
    }
}

/* ---------------------------------------------------------------- cards */

const STATES = {
    ready: "✓ ready", starting: "… starting", down: "✕ down", absent: "– absent",
    breaker: "✕ breaker open: one start a minute is tried",
};
/* What a card's own lines tell already. */
const TOLD = ["replica_bytes", "request_bytes", "slab_bytes", "budget_bytes", "free_bytes",
              "uptime_seconds", "replicas", "requests_in_flight", "streams", "restarts_total",
              "uploads_total", "upload_bytes_total", "upload_seconds_total", "evictions_total",
              "runs_total", "run_seconds_total", "errors_total", "no_memory_total",
              "shrunk_runs_total", "split_runs_total", "slowed"];

const UNITS = /(_(?:bytes|seconds|celsius|watts|joules|hertz|ratio))?(_total)?(?= |$)/;

function line(name, text, share) {
    const parts = [html("dt", {}, name), html("dd", {}, text)];
    if (share !== undefined) parts[1].append(bar(share));
    return parts;
}

function cardLines(card) {
    const g = (name) => card.gauges.get(name) ?? null, r = (name) => card.rates.get(name) ?? null;
    const t = (name) => card.totals.get(name) ?? null;
    const used = g("replica_bytes") + g("slab_bytes"), budget = g("budget_bytes");
    const lines = [
        ...line("VRAM of the budget", `${bytes(used)} of ${bytes(budget)}`, used / budget),
        ...line("of it replicas", `${bytes(g("replica_bytes"))}, ${number(g("replicas"))} of them`),
        ...line("of it for requests", `${bytes(g("slab_bytes"))}, ${bytes(g("request_bytes"))} in use`),
        ...line("free on the card", bytes(g("free_bytes"))),
        ...line("busy", percent(r("run_seconds_total")), r("run_seconds_total")),
        ...line("requests it has", number(g("requests_in_flight"))),
        ...line("runs", `${count(r("runs_total"))}/s`),
        ...line("uploads", `${bytes(r("upload_bytes_total"))}/s`),
        ...line("evictions", number(t("evictions_total"))),
        ...line("errors, want of VRAM", `${number(t("errors_total"))}, ${number(t("no_memory_total"))}`),
        ...line("restarts", number(t("restarts_total"))),
        ...line("up for", duration(g("uptime_seconds") || 0)),
    ];
    const slowed = [...card.gauges].filter(([name]) => name.startsWith("slowed "));
    if (slowed.length) {
        const by = slowed.filter(([, v]) => v > 0).map(([name]) => words(name.slice(7)));
        lines.push(...line("slowed by", by.join(", ") || "nothing"));
    }
    for (const [name, v] of [...card.gauges, ...card.totals])
        if (!TOLD.includes(name.split(" ")[0]))
            lines.push(...line(words(name.replace(UNITS, "")), measured(name.split(" ")[0], v)));
    return lines;
}

/* A section a card. */
export function showCards(parent, cards) {
    const numbers = [...cards.keys()];
    if (parent.dataset.cards !== numbers.join()) {
        parent.dataset.cards = numbers.join();
        parent.replaceChildren(...numbers.map((n) => html("article", { class: "card" },
            html("h3", {}, "gpu" + n + " ", html("span", { class: "state" })), html("dl"))));
    }
    numbers.forEach((n, i) => {
        const card = cards.get(n), [head, list] = parent.children[i].children;
        head.lastChild.className = "state " + card.state;
        tell(head.lastChild, STATES[card.state] || card.state);
        list.replaceChildren(...(card.state === "absent" ? [] : cardLines(card)));
    });
}

/* ---------------------------------------------------------------- what the tables have */

const perSecond = (v) => count(v ?? null);

export const OPERATIONS = [
    { name: "operation", text: (r) => words(r.name) },
    { name: "a second", number: true, text: (r) => perSecond(r.rate) },
    { name: "errors/s", number: true, wide: true, text: (r) => perSecond(r.failed) },
    { name: "p50", number: true, text: (r) => seconds(r.p50 ?? null) },
    { name: "p90", number: true, wide: true, text: (r) => seconds(r.p90 ?? null) },
    { name: "p99", number: true, text: (r) => seconds(r.p99 ?? null) },
];

export const SPACES = [
    { name: "space", text: (r) => r.name },
    { name: "a second", number: true, text: (r) => perSecond(r.requests) },
    { name: "errors/s", number: true, wide: true, text: (r) => perSecond(r.errors) },
    { name: "refused/s", number: true, wide: true, text: (r) => perSecond(r.refused) },
    { name: "waited", number: true, wide: true,
      text: (r) => r.requests ? seconds(r.queued / r.requests) : "–" },
    { name: "ran", number: true, wide: true,
      text: (r) => r.requests ? seconds(r.ran / r.requests) : "–" },
    { name: "in line", number: true, wide: true, text: (r) => number(r.line ?? null) },
    { name: "memory", number: true, text: (r) => bytes(r.host ?? null) },
    { name: "VRAM", number: true, text: (r) => bytes(r.vram ?? null) },
    { name: "connections", number: true, wide: true, text: (r) => number(r.connections ?? null) },
];

export const SLOW = [
    { name: "ago", number: true, text: (r) => duration(r.ago) },
    { name: "operation", text: (r) => words(r.operation) },
    { name: "asked of", wide: true, text: (r) => r.name || "–" },
    { name: "space", text: (r) => r.space },
    { name: "took", number: true, text: (r) => seconds(r.total_ns / 1e9) },
    { name: "in line", number: true, wide: true, text: (r) => seconds(r.queue_ns / 1e9) },
    { name: "ran", number: true, wide: true, text: (r) => seconds(r.run_ns / 1e9) },
    { name: "foreseen", number: true, wide: true,
      text: (r) => r.predicted_ns ? seconds(r.predicted_ns / 1e9) : "–" },
    { name: "on", wide: true, text: (r) => r.backend },
    { name: "why", wide: true, text: (r) => words(r.reason) },
    { name: "queries", number: true, wide: true, text: (r) => number(r.queries) },
    { name: "rows", number: true, wide: true, text: (r) => number(r.rows) },
    { name: "by", wide: true, text: (r) => r.peer ?? "–" },
    { name: "outcome", wide: true, text: (r) => words(r.status.toLowerCase()) },
];
