// The graph of a workflow: a column for each layer, a box for each task in the color of its
// state. The critical path, the chain of tasks that decides how long the workflow takes, is
// drawn thick.
import {clean, css, dragged, fetchData, picture, sized, stateColor, time} from "./lib.js";

const boxWide = 110, boxHigh = 20, stepX = 160, stepY = 27, named = .55, pause = 4000, restFactor = 30;
let canvas = null, main = null, data = null, job = 0, fault = "", reading = null, again = 0, tasks = [], scale = 1, x0 = 0, y0 = 0, moved = false, drag = null, hint = "";

export function enter(place, state) {
	main = place;
	canvas = picture(main, "graph", "graph of the tasks of a workflow");
	canvas.addEventListener("wheel", e => { e.preventDefault(); zoom(e.deltaY > 0 ? .8 : 1.25, e.offsetX, e.offsetY, state); }, {passive: false});
	dragged(canvas, e => { drag = e && [e.offsetX - x0, e.offsetY - y0]; });
	canvas.addEventListener("pointermove", e => {
		if (drag) { x0 = e.offsetX - drag[0]; y0 = e.offsetY - drag[1]; moved = true; state.redraw(); return; }
		const x = (e.offsetX - x0) / scale, y = (e.offsetY - y0) / scale, t = tasks.find(t => x >= t.x && x < t.x + boxWide && y >= t.y && y < t.y + boxHigh);
		state.say(t ? "task " + job + "." + t.task + " " + clean(t.name) + ": " + t.state + (t.node ? " on " + clean(t.node) : "") + (t.took ? ", " + time(t.took) : "") + (t.critical ? "; on the critical path" : "") : hint);
	});
	if (job !== state.job) moved = false;
	load(state);
}
export function leave() { reading?.abort(); clearTimeout(again); }
export function chosen(state) { moved = false; load(state); }
export function key(k, state) {
	if (k === "r") { load(state); return true; }
	const w = canvas.clientWidth / 2, h = canvas.clientHeight / 2, move = (x, y) => { x0 += x; y0 += y; moved = true; state.redraw(); };
	const does = {"+": () => zoom(1.4, w, h, state), "=": () => zoom(1.4, w, h, state), "-": () => zoom(.7, w, h, state), "0": () => { moved = false; state.redraw(); }, ArrowLeft: () => move(80, 0), ArrowRight: () => move(-80, 0), ArrowUp: () => move(0, 60), ArrowDown: () => move(0, -60)}[k];
	does?.();
	return !!does;
}
function zoom(by, x, y, state) {
	const next = Math.min(Math.max(scale * by, .02), 3);
	x0 = x - (x - x0) * next / scale;
	y0 = y - (y - y0) * next / scale;
	scale = next;
	moved = true;
	state.redraw();
}

async function load(state, keep) {
	reading?.abort();
	clearTimeout(again);
	if (keep && document.hidden) { again = setTimeout(() => load(state, true), pause); return; }
	reading = new AbortController();
	const signal = reading.signal, want = state.job, began = performance.now();
	const look = state.look?.jobs.find(j => j.id === want);
	if (look && look.kind !== "workflow") { job = want; data = null; fault = "job " + want + " is a " + look.kind + "; choose a workflow"; state.say(fault); state.redraw(); return; }
	if (!want) return;
	if (job !== want) { job = want; data = null; fault = ""; }
	try {
		data = await fetchData("timeline", want, signal);
		fault = data.graph ? "" : "the graph of job " + want + " is not kept any more, or has more tasks than are read";
		if (data.graph) place(data.graph);
		canvas.setAttribute("aria-label", "graph of " + (data.graph?.tasks.length || 0) + " tasks");
	} catch (e) {
		if (signal.aborted) return;
		fault = clean(e.message);
	}
	say(state);
	state.redraw();
	if (data && data.job.exit_code === null) again = setTimeout(() => load(state, true), Math.max(pause, (performance.now() - began) * restFactor));
}

function say(state) {
	if (!data?.graph || fault) return;
	const g = data.graph, count = {};
	for (const t of g.tasks) count[t.state] = (count[t.state] || 0) + 1;
	hint = g.tasks.length + " tasks" + (g.left_out ? " drawn, " + g.left_out + " more left out: those of the critical path, running, failed and ready ones are drawn first" : "") + ": " + Object.entries(count).map(([s, n]) => n + " " + s).join(", ") + "; critical path " + time(g.chain) + " (a task without an end counts with the mean).";
	state.say(hint);
}

// place puts each task into the column of its layer, next to the middle of its parents.
function place(g) {
	tasks = g.tasks;
	const layers = [];
	tasks.forEach((t, i) => (layers[t.layer] ??= []).push(i));
	for (const [k, layer] of layers.entries()) {
		if (!layer) continue;
		const rank = i => tasks[i].parents.length ? tasks[i].parents.reduce((s, p) => s + tasks[p].row, 0) / tasks[i].parents.length : i;
		const ranks = new Map(layer.map(i => [i, k ? rank(i) : i]));
		layer.sort((a, b) => ranks.get(a) - ranks.get(b) || a - b);
		layer.forEach((i, n) => { tasks[i].row = (n - (layer.length - 1) / 2); });
	}
	for (const t of tasks) { t.x = t.layer * stepX; t.y = t.row * stepY; }
}

// fit shows the whole graph.
function fit(w, h) {
	let right = 0, low = 0, up = 0;
	for (const t of tasks) { right = Math.max(right, t.x + boxWide); low = Math.max(low, t.y + boxHigh); up = Math.min(up, t.y); }
	scale = Math.min(w / (right + 20), h / (low - up + 20), 1.4);
	x0 = (w - right * scale) / 2;
	y0 = (h - (low + up) * scale) / 2;
}

export function draw(state) {
	if (!canvas?.isConnected) return;
	const [g, w, h] = sized(canvas, Math.max(main.clientHeight - 12, 120));
	if (!data?.graph || fault) {
		g.fillStyle = css(fault && !fault.endsWith("a workflow") ? "--bad" : "--dim");
		g.fillText(fault || (state.job ? "reading the workflow" : "no job"), 4, 20);
		return;
	}
	if (!moved) fit(w, h);
	g.save();
	g.translate(x0, y0);
	g.scale(scale, scale);
	for (const thick of [false, true]) {
		g.strokeStyle = css(thick ? "--text" : "--dim");
		g.globalAlpha = thick ? 1 : .4;
		g.lineWidth = (thick ? 2.5 : 1) / Math.min(Math.max(scale, .3), 1);
		g.beginPath();
		for (const t of tasks) for (const p of t.parents) {
			const q = tasks[p];
			if (!!(t.critical && q.critical) !== thick) continue;
			const x = q.x + boxWide, y = q.y + boxHigh / 2, mid = (x + t.x) / 2;
			g.moveTo(x, y);
			g.bezierCurveTo(mid, y, mid, t.y + boxHigh / 2, t.x, t.y + boxHigh / 2);
		}
		g.stroke();
	}
	g.globalAlpha = 1;
	g.font = "11px system-ui, sans-serif";
	g.textAlign = "left";
	for (const t of tasks) {
		if ((t.x + boxWide) * scale + x0 < 0 || t.x * scale + x0 > w || (t.y + boxHigh) * scale + y0 < 0 || t.y * scale + y0 > h) continue;
		const full = scale < named;
		g.fillStyle = full ? stateColor(t.state) : css("--back");
		g.fillRect(t.x, t.y, boxWide, boxHigh);
		g.strokeStyle = css(t.critical ? "--text" : "--line");
		g.lineWidth = t.critical ? 2 : 1;
		g.strokeRect(t.x, t.y, boxWide, boxHigh);
		if (full) continue;
		g.fillStyle = stateColor(t.state);
		g.fillRect(t.x, t.y, 7, boxHigh);
		g.fillStyle = css("--text");
		g.fillText(clean(t.name || String(t.task)).slice(0, 16), t.x + 12, t.y + boxHigh / 2, boxWide - 16);
	}
	g.restore();
	g.textAlign = "left";
	let x = 4;
	for (const s of ["waiting", "ready", "running", "ok", "failed", "skipped"]) {
		g.fillStyle = stateColor(s); g.fillRect(x, 4, 10, 10);
		g.fillStyle = css("--dim"); g.fillText(s, x + 14, 10);
		x += 24 + g.measureText(s).width;
	}
}
