// The timeline of the tasks of a job: a row for each slot that a node used at a time, a bar
// for each task. The bars are written as pixels: for each row, a search finds the first bar of
// a pixel, and the search goes on behind the pixel, so that a frame costs rows times columns,
// not bars.
import {clean, css, dark, dragged, fetchData, picture, pixels, rgba, sized, time} from "./lib.js";

const left = 76, axisHigh = 20, rowMost = 16, rowLeast = 2, gap = 4, timesMax = 1000;
const pause = 5000, restFactor = 30; // between two readings of a job that runs: also this many times a reading
const names = ["ok", "failed", "stopped", "running"];
// frameTimes are the milliseconds of the script in the last frames.
const frameTimes = window.frameTimes = [];

let canvas = null, main = null, data = null, job = 0, fault = "", reading = null, again = 0, rows = [], from = 0, to = 1, top = 0, high = rowMost, deep = 0, colors = null, hint = "", drag = null;
dark.addEventListener("change", () => { colors = null; });

export function enter(place, state) {
	main = place;
	canvas = picture(main, "timeline", "timeline of the tasks by node");
	canvas.addEventListener("wheel", e => { e.preventDefault(); if (e.shiftKey) scroll(e.deltaY, state); else zoom(e.deltaY > 0 ? 1.25 : .8, whenAt(e.offsetX), state); }, {passive: false});
	dragged(canvas, e => { drag = e && [e.offsetX, e.offsetY, from, to, top]; });
	canvas.addEventListener("pointermove", e => {
		if (!drag) { state.say(tell(e.offsetX, e.offsetY) || hint); return; }
		const by = (drag[0] - e.offsetX) * (drag[3] - drag[2]) / wide();
		view(drag[2] + by, drag[3] + by, state);
		top = drag[4];
		scroll(drag[1] - e.offsetY, state);
	});
	if (job !== state.job || !data) load(state); else plan(state);
}
export function leave() { reading?.abort(); clearTimeout(again); }
export function chosen(state) { load(state); }
export function key(k, state) {
	if (k === "r") { load(state, true); return true; }
	const step = (to - from) / 5, mid = (from + to) / 2;
	const does = {"+": () => zoom(.7, mid, state), "=": () => zoom(.7, mid, state), "-": () => zoom(1.4, mid, state), "0": () => { top = 0; view(0, end(), state); }, ArrowLeft: () => view(from - step, to - step, state), ArrowRight: () => view(from + step, to + step, state), ArrowUp: () => scroll(-60, state), ArrowDown: () => scroll(60, state)}[k];
	does?.();
	return !!does;
}

const wide = () => Math.max(canvas.clientWidth - left, 1);
const end = () => Math.max((data?.seconds || 0) * 1e6, 1);
const whenAt = x => from + (to - from) * Math.max(x - left, 0) / wide();
function view(a, z, state) {
	const span = Math.min(Math.max(z - a, 10), end());
	from = Math.min(Math.max(a, 0), end() - span);
	to = from + span;
	state.redraw();
}
const zoom = (by, at, state) => view(at - (at - from) * by, at + (to - at) * by, state);
function scroll(by, state) { top = Math.max(0, Math.min(top + by, deep - viewHigh())); state.redraw(); }
const viewHigh = () => Math.max(Math.min(main.clientHeight - axisHigh - 12, deep), 20);

// load reads the bars of the chosen job. A job that runs is read again, and the time that is
// shown stays.
async function load(state, keep) {
	reading?.abort();
	clearTimeout(again);
	if (keep && document.hidden) { again = setTimeout(() => load(state, true), pause); return; }
	reading = new AbortController();
	const signal = reading.signal, want = state.job, began = performance.now();
	if (!want) { fault = "no job"; return; }
	try {
		const got = await fetchData("timeline", want, signal);
		const all = !keep || from <= 0 && to >= end() * .999;
		data = got;
		fault = "";
		job = want;
		index();
		plan(state);
		if (all) { from = 0; to = end(); if (!keep) top = 0; }
	} catch (e) {
		if (signal.aborted) return;
		fault = clean(e.message);
		if (job !== want) data = null;
		job = want;
	}
	state.redraw();
	if (data && data.job.exit_code === null) again = setTimeout(() => load(state, true), Math.max(pause, (performance.now() - began) * restFactor));
}

// show shows the bars of a report.
export function show(report, state) {
	data = report;
	index();
	plan(state);
	from = top = 0;
	to = end();
	state.redraw();
}

// index makes rows of the bars: a row has its bars in the order of time, and apart those that
// did not end well, which a wider bar must not hide.
function index() {
	if (!data.bars?.begin?.length && (data.job.kind === "run" || data.job.kind === "step")) runBars();
	const b = data.bars, first = [];
	let n = 0;
	rows = [];
	data.nodes.forEach((node, i) => {
		first[i] = n;
		for (let lane = 0; lane < Math.max(node.lanes, 1); lane++, n++) rows.push({node: i, lane, bars: [], bad: []});
	});
	for (let i = 0; i < b.begin.length; i++) {
		for (let k = 0; k < (b.tall ? b.tall[i] : 1); k++) {
			const r = rows[first[b.node[i]] + b.lane[i] + k];
			r.bars.push(i);
			if (b.state[i] === 1) r.bad.push(i);
		}
	}
	for (const r of rows) for (const k of ["bars", "bad"]) {
		r[k].sort((x, y) => b.begin[x] - b.begin[y]);
		const list = Int32Array.from(r[k]);
		r[k] = {list, begin: Float64Array.from(list, i => b.begin[i]), end: Float64Array.from(list, i => b.end[i]), state: Uint8Array.from(list, i => b.state[i])};
	}
}

// runBars makes a bar for each node of a run, which has no tasks.
function runBars() {
	const j = data.job, begin = (j.waited || 0) * 1e6, list = j.exit_code === null && j.state !== "running" ? [] : [...new Set(j.nodes || [])];
	const state = j.exit_code === null ? 3 : j.state === "ok" ? 0 : j.state === "failed" || j.state === "killed" || j.state === "lost" ? 1 : 2;
	data.nodes = (list.length ? list : [j.origin]).map(name => ({name, lanes: 1, slots: 1}));
	const fill = v => list.map(() => v);
	data.bars = {begin: fill(begin), end: fill(begin + (j.elapsed || 0) * 1e6), in: fill(0), out: fill(0), node: list.map((_, i) => i), lane: fill(0), task: fill(-1), state: fill(state)};
}

// plan places the rows.
function plan(state) {
	if (!data || !main) return;
	high = Math.max(rowLeast, Math.min(rowMost, Math.floor((main.clientHeight - axisHigh - 12 - data.nodes.length * gap) / Math.max(rows.length, 1))));
	let y = 0;
	rows.forEach((r, i) => {
		if (i && rows[i - 1].node !== r.node) y += gap;
		r.y = y;
		y += high;
	});
	deep = y;
	const tasks = data.gangs ? new Set(data.bars.task).size : data.bars.begin.length;
	hint = "Job " + data.job.id + " " + clean(data.job.name).slice(0, 60) + ": " + (data.job.kind !== "run" && data.job.kind !== "step" ? tasks + " tasks" : tasks + (data.bars.task[0] < -1 ? " ranks" : " nodes with ranks")) + (data.left_out ? ", without the " + data.left_out + " shortest" : "") + (data.never ? ", " + data.never + " never started" : "") + (data.unknown ? ", " + data.unknown + " not begun or without a recorded end" : "") + (data.gangs ? "; gangs whose events the nodes forgot are drawn at their owner" : "") + ". Wheel or + and - zoom, drag or arrows move, 0 shows all.";
	state.say(hint);
}

function tell(x, y) {
	if (!data || x < left) return "";
	const at = whenAt(x), slack = (to - from) / wide(), r = rows.find(r => y + top >= r.y && y + top < r.y + high), b = data.bars;
	if (!r) return "";
	const k = after(r.bars, at - slack);
	if (k >= r.bars.list.length || r.bars.begin[k] > at + slack) return "";
	const i = r.bars.list[k];
	return (b.task[i] < -1 ? "rank " + (-2 - b.task[i]) + " of job " + data.job.id : b.task[i] < 0 ? "ranks of job " + data.job.id : "task " + data.job.id + "." + b.task[i]) + " on " + clean(data.nodes[r.node].name) + ": " + names[b.state[i]] + ", from " + time(b.begin[i] / 1e6) + ", for " + time((b.end[i] - b.begin[i]) / 1e6);
}

// after is the first bar of a row that ends behind a time. The bars of a row do not overlap.
function after(bars, at, low = 0) {
	let high = bars.end.length;
	while (low < high) {
		const mid = low + high >> 1;
		if (bars.end[mid] <= at) low = mid + 1; else high = mid;
	}
	return low;
}

export function draw(state) {
	if (!canvas?.isConnected) return;
	const began = performance.now();
	if (!data || fault) { const [g] = sized(canvas, 60); g.fillStyle = css(fault ? "--bad" : "--dim"); g.fillText(fault || "reading the tasks of job " + state.job, 4, 20); return; }
	const shown = viewHigh(), [g, w] = sized(canvas, shown + axisHigh), r = pixels();
	colors ??= [css("--ok"), css("--bad"), css("--other"), css("--run"), css("--idle"), css("--back")].map(rgba);
	const cols = Math.floor((w - left) * r), tall = Math.floor(shown * r);
	if (cols > 0 && tall > 0) {
		const image = paint(g, cols, tall, r);
		g.putImageData(image, Math.round(left * r), 0);
	}
	shade(g, w, shown);
	label(g, w, shown);
	frameTimes.push(performance.now() - began);
	if (frameTimes.length > timesMax) frameTimes.shift();
}

// paint writes the bars that are seen as pixels.
let kept = null;
function paint(g, cols, tall, r) {
	if (!kept || kept.width !== cols || kept.height !== tall) kept = g.createImageData(cols, tall);
	const px = new Uint32Array(kept.data.buffer), perCol = (to - from) / cols, thick = Math.max(1, Math.floor(high * r) - (high > 3 ? Math.round(r) : 0));
	px.fill(colors[5]);
	for (const row of rows) {
		const y = Math.floor((row.y - top) * r);
		if (y + thick <= 0 || y >= tall) continue;
		const first = Math.max(y, 0), at = first * cols;
		px.fill(colors[4], at, at + cols);
		line(px, at, cols, row.bars, perCol, high > 3);
		line(px, at, cols, row.bad, perCol, false);
		for (let k = first + 1; k < Math.min(y + thick, tall); k++) px.copyWithin(k * cols, at, at + cols);
	}
	return kept;
}

// line writes a row of bars: of all bars within a pixel, the first.
function line(px, at, cols, bars, perCol, edges) {
	const n = bars.end.length;
	let k = after(bars, from);
	while (k < n && bars.begin[k] < to) {
		const x = Math.max(Math.floor((bars.begin[k] - from) / perCol), 0);
		let end = Math.min(Math.ceil((bars.end[k] - from) / perCol), cols);
		if (edges && end - x > 3 && end < cols) end--; // a line between two bars
		if (end <= x) end = x + 1;
		px.fill(colors[bars.state[k]], at + x, at + Math.min(end, cols));
		const next = from + Math.max(end, x + 1) * perCol;
		k++;
		if (k < n && bars.end[k] <= next) k = after(bars, next, k);
	}
}

// shade draws the times in which a node was lost or drained.
function shade(g, w, shown) {
	g.save();
	g.beginPath(); g.rect(left, 0, w - left, shown); g.clip();
	const scale = (w - left) / (to - from);
	for (const row of rows) {
		const n = data.nodes[row.node];
		for (const [list, color] of [[n.lost, "--lost"], [n.drain, "--drain"]]) for (const s of list || []) {
			g.fillStyle = css(color);
			g.fillRect(left + (s.Begin - from) * scale, row.y - top, (s.End - s.Begin) * scale, high);
		}
	}
	g.restore();
}

function label(g, w, shown) {
	g.save();
	g.beginPath(); g.rect(0, 0, left, shown); g.clip();
	g.fillStyle = css("--text"); g.textAlign = "left";
	let last = -99;
	for (const row of rows) if (row.lane === 0 && row.y - top - last >= 12) {
		last = row.y - top;
		g.fillText(clean(data.nodes[row.node].name).slice(0, 10), 4, last + Math.max(high / 2, 6));
	}
	g.restore();
	g.fillStyle = css("--dim");
	for (let i = 0; i <= 4; i++) {
		g.textAlign = i === 0 ? "left" : i === 4 ? "right" : "center";
		g.fillText(time((from + (to - from) * i / 4) / 1e6), left + (w - left - 4) * i / 4, shown + axisHigh / 2 + 2);
	}
}
