// Texts, numbers, colors and canvases for all views.

// clean makes control characters, and characters that cannot be seen or that turn the
// direction of text, visible, as the commands of filch do on a terminal.
const short = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r"};
export const clean = s => String(s ?? "").replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\ufffd]/gu, c => {
	const n = c.codePointAt(0), hex = n.toString(16);
	if (short[n]) return "\\" + short[n];
	if (n < 0x80) return "\\x" + hex.padStart(2, "0");
	return n < 0x10000 ? "\\u" + hex.padStart(4, "0") : "\\U" + hex.padStart(8, "0");
});

// lines is clean for output of many lines.
export const lines = s => s.split("\n").map(clean).join("\n");

// make makes an element. Texts never become HTML.
export function make(tag, text, cls) {
	const e = document.createElement(tag);
	if (text !== undefined) e.textContent = text;
	if (cls) e.className = cls;
	return e;
}

export function time(s) {
	if (!(s >= 0)) return "-";
	if (s < 1) return (s * 1000).toFixed(s < 0.01 && s > 0 ? 2 : 0) + " ms";
	if (s < 60) return s.toFixed(s < 10 ? 1 : 0) + " s";
	let text = "", left = Math.round(s);
	for (const [n, u] of [[86400, "d"], [3600, "h"], [60, "m"]]) if (left >= n || text) { text += Math.floor(left / n) + u + " "; left %= n; }
	return text + left + "s";
}
export const number = v => v >= 100 || Number.isInteger(v) ? Math.round(v).toLocaleString("en") : v.toFixed(1);
export const when = ns => new Date(ns / 1e6).toLocaleString();

// The colors are read again when the browser turns light or dark.
let known = {};
export const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => { known = {}; });
export const css = name => known[name] ??= getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const jobColor = id => "hsl(" + (id * 137.5) % 360 + " 58% " + css("--light") + ")";
export const stateColor = s => css({ok: "--ok", failed: "--bad", killed: "--bad", lost: "--bad", running: "--run", ready: "--ready", waiting: "--wait"}[s] || "--other");

// rgba is a color as a pixel of an ImageData.
const probe = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
export function rgba(color) {
	probe.clearRect(0, 0, 1, 1);
	probe.fillStyle = color;
	probe.fillRect(0, 0, 1, 1);
	return new Uint32Array(probe.getImageData(0, 0, 1, 1).data.buffer)[0];
}

// pixels is the number of pixels of the screen for a pixel of the page; more would cost time only.
export const pixels = () => Math.min(window.devicePixelRatio || 1, 2);

// sized makes a canvas as large as its place, and returns its context, width and height.
export function sized(e, height) {
	const w = e.clientWidth, h = height, r = pixels();
	if (e.width !== Math.round(w * r) || e.height !== Math.round(h * r)) {
		e.width = Math.round(w * r);
		e.height = Math.round(h * r);
	}
	e.style.height = h + "px";
	const g = e.getContext("2d");
	g.setTransform(r, 0, 0, r, 0, 0);
	g.clearRect(0, 0, w, h);
	g.font = "12px system-ui, sans-serif";
	g.textBaseline = "middle";
	return [g, w, h];
}

// fetchData asks the launcher. A launcher that is busy is asked again.
const busyTries = 5, busyPause = 700;
export async function fetchData(what, job, signal) {
	const url = "data/" + what + (job ? "?job=" + job : "");
	for (let i = 0; ; i++) {
		const r = await fetch(url, {signal, cache: "no-store"});
		if (r.status === 503 && i < busyTries) { await new Promise(f => setTimeout(f, busyPause)); continue; }
		if (!r.ok) throw new Error(await r.text() || "the launcher answered " + r.status);
		return (r.headers.get("Content-Type") || "").startsWith("application/json") ? r.json() : r.text();
	}
}

// table fills a table: columns are [title, class, sort key].
export function table(columns, by, onSort) {
	const t = make("table"), head = t.createTHead().insertRow();
	for (const [title, cls, key] of columns) {
		const th = make("th", title, cls);
		if (key && onSort) { th.dataset.sort = key; th.addEventListener("click", () => onSort(key)); if (key === by) th.classList.add("by"); }
		head.append(th);
	}
	return [t, t.createTBody()];
}

// picture adds a canvas to a view.
export function picture(main, id, label) {
	const canvas = make("canvas");
	canvas.id = id;
	canvas.tabIndex = 0;
	canvas.setAttribute("role", "img");
	canvas.setAttribute("aria-label", label);
	main.append(canvas);
	return canvas;
}

// dragged calls f with the event that begins a drag, and with null at its end.
export function dragged(canvas, f) {
	canvas.addEventListener("pointerdown", e => { f(e); canvas.setPointerCapture(e.pointerId); });
	canvas.addEventListener("pointerup", () => f(null));
}
