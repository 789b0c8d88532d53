/* chart: lines over time as SVG, each told apart by dashes and marks as well as by colour, with the
 * values as text below, as a table, and at any moment by pointer or arrow keys. */
import { decades, ticks } from "./read.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 180, LEFT = 62, RIGHT = 12, TOP = 10, BOTTOM = 24;
const PARTS = { 30: 3, 60: 4, 90: 3, 120: 4, 180: 3, 300: 5, 600: 5 }; /* of so many seconds */
const MARK_EVERY = 70; /* pixels between two marks of a line */
export const SERIES_MAX = 6;

function fill(element, attributes, children) {
    for (const [name, v] of Object.entries(attributes || {})) element.setAttribute(name, v);
    element.append(...children); /* texts become text, whatever is in them */
    return element;
}

export function html(name, attributes, ...children) {
    return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes, ...children) {
    return fill(document.createElementNS(SVG, name), attributes, children);
}

export function tell(element, text) {
    if (element.textContent !== text) element.textContent = text;
}

/* A mark of a series' own shape. */
function mark(slot, x, y) {
    const shapes = ["M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0Z", "M-3-3H3V3H-3Z", "M0-4 4 3H-4Z",
                    "M0-4 4 0 0 4-4 0Z", "M-3-3 3 3M-3 3 3-3", "M-4 0H4M0-4V4"];
    return svg("path", { d: shapes[slot], class: "mark s" + slot,
                         transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` });
}

function swatch(slot) {
    return svg("svg", { width: 30, height: 12, "aria-hidden": "true", class: "swatch" },
               svg("path", { d: "M0 6H30", class: "line s" + slot }), mark(slot, 15, 6));
}

function ago(seconds) {
    if (seconds < 0.5) return "now";
    return seconds < 59.5 ? "−" + Math.round(seconds) + " s"
                        : "−" + Number((seconds / 60).toFixed(1)) + " min";
}

function spoken(seconds) {
    const text = ago(seconds);
    return text === "now" ? text : text.slice(1) + " ago";
}

export class Chart {
    /* o: id, title, help, format (a value as text), scale ("linear", "binary", "log", "ratio"). */
    constructor(o, parent) {
        Object.assign(this, o);
        this.slots = new Map();
        this.at = null; /* the index of the moment that is pointed at */
        this.times = [];
        this.series = [];
        this.marks = [];
        const name = "chart-" + this.id;
        this.label = svg("title", { id: name + "-title" }, this.title);
        this.text = svg("desc", { id: name + "-text" });
        this.svg = svg("svg", { class: "chart", height: HEIGHT, tabindex: 0, role: "img",
                                "aria-labelledby": `${name}-title ${name}-text` },
                       this.label, this.text);
        this.when = html("span", { class: "when" });
        this.legend = html("ul", { class: "legend" });
        this.said = html("p", { class: "unseen", "aria-live": "polite" });
        this.body = html("tbody");
        this.more = html("details", {}, html("summary", {}, "Numbers"), html("table", {},
            html("thead", {}, html("tr", {}, ...["", "now", "mean", "least", "most"].map(
                (text) => html("th", { scope: "col" }, text)))), this.body));
        this.figure = html("figure", { id: name, "data-chart": this.id },
            html("figcaption", {}, html("h2", {}, this.title), this.when),
            html("p", { class: "help" }, this.help), this.svg, this.legend, this.more, this.said);
        parent.append(this.figure);
        this.more.addEventListener("toggle", () => this.paintTable());
        this.svg.addEventListener("pointermove", (e) => this.point(this.nearest(e.offsetX)));
        this.svg.addEventListener("pointerleave", () => this.point(null));
        this.svg.addEventListener("blur", () => this.point(null));
        this.svg.addEventListener("keydown", (e) => this.key(e));
        new ResizeObserver(() => this.paint()).observe(this.figure);
    }

    /* times: seconds before now, rising to it; series: {name, values}, a value for each time or
     * null; marks: {time, text}. */
    draw(times, series, marks, span) {
        Object.assign(this, { times, series: series.slice(0, SERIES_MAX), marks, span });
        const names = new Set(this.series.map((s) => s.name));
        for (const name of this.slots.keys()) if (!names.has(name)) this.slots.delete(name);
        const taken = new Set(this.slots.values());
        for (const name of names) {
            if (this.slots.has(name)) continue;
            const slot = [...Array(SERIES_MAX).keys()].find((n) => !taken.has(n));
            taken.add(slot);
            this.slots.set(name, slot);
        }
        this.series.sort((a, b) => this.slots.get(a.name) - this.slots.get(b.name));
        if (this.at !== null) this.at = Math.min(this.at, times.length - 1);
        this.paint();
        this.paintTable();
    }

    /* ------------------------------------------------------------ where things are */

    scales() {
        const known = this.series.flatMap((s) => s.values).filter((v) => v !== null);
        const width = Math.max(200, Math.floor(this.svg.clientWidth || this.figure.clientWidth));
        const plot = { width, left: LEFT, right: width - RIGHT, top: TOP, bottom: HEIGHT - BOTTOM };
        const most = Math.max(0, ...known), above = known.filter((v) => v > 0);
        const lines = this.scale === "ratio" ? [0, 0.25, 0.5, 0.75, 1]
            : this.scale === "log" ? decades(above.length ? Math.min(...above) : 0.001,
                                             above.length ? most : 0.01)
            : ticks(this.scale === "count" ? Math.max(4, most) : most, 4, this.scale === "binary");
        const [low, high] = [lines[0], lines[lines.length - 1]];
        const share = this.scale === "log"
            ? (v) => Math.log(Math.max(v, low) / low) / Math.log(high / low)
            : (v) => (v - low) / (high - low);
        return { ...plot, lines, known,
                 x: (time) => plot.right - (plot.right - plot.left) * time / this.span,
                 y: (v) => plot.bottom - (plot.bottom - plot.top) * share(v) };
    }

    nearest(x) {
        if (!this.times.length) return null;
        const to = this.scales();
        let best = 0;
        this.times.forEach((time, i) => {
            if (Math.abs(to.x(time) - x) < Math.abs(to.x(this.times[best]) - x)) best = i;
        });
        return best;
    }

    /* ------------------------------------------------------------ pointing */

    point(at) {
        if (at === this.at) return;
        this.at = at;
        this.paint();
    }

    key(e) {
        const last = this.times.length - 1, from = this.at === null ? last : this.at;
        const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last }[e.key];
        if (e.key === "Escape") this.point(null);
        if (to === undefined || last < 0) return;
        e.preventDefault();
        this.point(Math.max(0, Math.min(last, to)));
        tell(this.said, spoken(this.times[this.at]) + ": " + this.values());
    }

    values() {
        const at = this.at === null ? this.times.length - 1 : this.at;
        return this.series.map((s) => `${this.name(s)} ${this.format(s.values[at])}`).join(", ");
    }

    name(s) {
        return this.rename ? this.rename(s.name) : s.name;
    }

    /* ------------------------------------------------------------ painting */

    paint() {
        const to = this.scales(), parts = [];
        for (const v of to.known.length ? to.lines : []) {
            const y = Math.round(to.y(v)) + 0.5;
            parts.push(svg("path", { d: `M${to.left} ${y}H${to.right}`, class: "grid" }),
                       svg("text", { x: to.left - 6, y: y + 4, class: "y" }, this.format(v)));
        }
        const shown = PARTS[this.span] || 4;
        for (let i = 0; i <= shown && this.span; i++) {
            const time = this.span * i / shown;
            parts.push(svg("text", { x: to.x(time), y: HEIGHT - 6,
                                     class: i === 0 ? "x last" : i === shown ? "x first" : "x" },
                           ago(time)));
        }
        for (const m of this.marks.filter((one) => one.time <= this.span)) {
            const x = to.x(m.time).toFixed(1);
            parts.push(svg("path", { d: `M${x} ${to.top}V${to.bottom}`, class: "event" }),
                       svg("text", { x, y: to.top + 4, class: "event" +
                           (to.x(m.time) > to.right - 80 ? " before" : "") }, m.text));
        }
        for (const s of this.series) parts.push(...this.line(s, to));
        if (this.at !== null) {
            const x = to.x(this.times[this.at]).toFixed(1);
            parts.push(svg("path", { d: `M${x} ${to.top}V${to.bottom}`, class: "cross" }));
        }
        if (!to.known.length)
            parts.push(svg("text", { x: (to.left + to.right) / 2, y: HEIGHT / 2, class: "none" },
                           this.empty || "nothing yet"));
        this.svg.setAttribute("viewBox", `0 0 ${to.width} ${HEIGHT}`);
        this.svg.replaceChildren(this.label, this.text, ...parts);
        this.figure.dataset.points = to.known.length;
        tell(this.when, this.at === null ? "" : ago(this.times[this.at]));
        if (this.at === null) tell(this.text, "Now: " + this.values());
        this.paintLegend();
    }

    /* A line, broken where nothing is known, and its marks; a moment by itself is a mark. */
    line(s, to) {
        const slot = this.slots.get(s.name), marks = [];
        let path = "", open = false, marked = Infinity;
        s.values.forEach((v, i) => {
            if (v === null || this.times[i] > this.span) {
                open = false;
                return;
            }
            const x = to.x(this.times[i]), y = to.y(v);
            path += (open ? "L" : "M") + x.toFixed(1) + " " + y.toFixed(1);
            open = true;
            const next = s.values[i + 1], alone = next === null || next === undefined;
            if (alone || marked === Infinity || x - marked >= MARK_EVERY) {
                marks.push(mark(slot, x, y));
                marked = x;
            }
        });
        return path ? [svg("path", { d: path, class: "line s" + slot }), ...marks] : [];
    }

    paintLegend() {
        const at = this.at === null ? this.times.length - 1 : this.at;
        const items = [...this.legend.children];
        this.series.forEach((s, i) => {
            const slot = this.slots.get(s.name);
            let item = items[i];
            if (!item || item.dataset.slot !== String(slot)) {
                const fresh = html("li", { "data-slot": slot }, swatch(slot), html("span"),
                                   html("b"));
                if (item) item.replaceWith(fresh);
                else this.legend.append(fresh);
                item = fresh;
            }
            tell(item.children[1], this.name(s));
            tell(item.children[2], this.format(at < 0 ? null : s.values[at]));
        });
        items.slice(this.series.length).forEach((item) => item.remove());
    }

    paintTable() {
        if (!this.more.open) return;
        this.body.replaceChildren(...this.series.map((s) => {
            const known = s.values.filter((v) => v !== null);
            const mean = known.reduce((a, b) => a + b, 0) / known.length;
            const cells = known.length
                ? [s.values[s.values.length - 1], mean, Math.min(...known), Math.max(...known)]
                : [null, null, null, null];
            return html("tr", {}, html("th", { scope: "row" }, this.name(s)),
                        ...cells.map((v) => html("td", {}, this.format(v))));
        }));
    }
}
