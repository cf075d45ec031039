// The frame of the page: views, keys, and the looks that the launcher sends.
import {clean, make, number, dark} from "./lib.js";
import * as nodes from "./nodes.js";
import * as steals from "./steals.js";
import * as timeline from "./timeline.js";
import * as graph from "./graph.js";
import * as rates from "./rates.js";
import * as jobs from "./jobs.js";
import * as past from "./past.js";

const views = [
	["nodes", "Nodes", nodes], ["steals", "Steals", steals], ["timeline", "Timeline", timeline], ["graph", "Workflow", graph],
	["rates", "Rates", rates], ["jobs", "Jobs", jobs], ["past", "History", past],
];
const $ = id => document.getElementById(id);
const staleAfter = 3000, retryPause = 2000, keepLooks = 600;

// state is what the views show: the last look, rates between looks, and the job that is chosen.
export const state = {look: null, at: 0, job: 0, filter: "", looks: [], recent: new Map(), rate: new Map(), redraw, choose, say};
let current = views[0], source = null, trouble = "", retry = 0;

function say(text) { $("tip").textContent = text; }

// redraw draws the view once before the next frame.
let asked = false;
function redraw() {
	if (asked) return;
	asked = true;
	requestAnimationFrame(() => { asked = false; current[2].draw(state); });
}

function show(id) {
	const next = views.find(v => v[0] === id) || views[0];
	current[2].leave?.();
	current = next;
	for (const b of $("tabs").children) b.setAttribute("aria-selected", b.dataset.view === next[0]);
	mark();
	$("main").replaceChildren();
	say("");
	next[2].enter($("main"), state);
	redraw();
}

function choose(job) {
	if (!job || job === state.job) return;
	state.job = job;
	$("job").value = job;
	mark();
	current[2].chosen?.(state);
	redraw();
}

// mark keeps the view and the job in the address, so that reading the page again shows them.
const mark = () => history.replaceState(null, "", "#" + current[0] + (state.job ? "/" + state.job : ""));

for (const [i, [id, title]] of views.entries()) {
	const b = make("button");
	b.append(make("kbd", String(i + 1)), title);
	b.dataset.view = id;
	b.setAttribute("role", "tab");
	b.addEventListener("click", () => show(id));
	$("tabs").append(b);
}

// Looks.
function connect() {
	clearTimeout(retry);
	source?.close();
	source = new EventSource("live");
	source.addEventListener("hello", e => {
		const name = clean(JSON.parse(e.data).instance);
		$("instance").textContent = name;
		document.title = "filch " + name;
	});
	source.addEventListener("view", e => take(JSON.parse(e.data)));
	source.addEventListener("trouble", e => { trouble = clean(JSON.parse(e.data)); status(); });
	source.onerror = () => {
		source.close();
		trouble = "the launcher does not answer, or serves as many pages as it can; trying again every " + retryPause / 1000 + " s";
		status();
		clearTimeout(retry);
		retry = setTimeout(connect, retryPause);
	};
}

function take(look) {
	const at = performance.now(), old = state.looks.at(-1);
	trouble = "";
	state.look = look;
	state.at = at;
	const sum = {at, busy: 0, slots: 0, ready: 0, waiting: 0, running: 0, ended: 0, won: 0, tries: 0, messages: 0, store: 0, up: 0, jobs: 0, jobsWait: 0};
	const before = state.counts || new Map(), counts = new Map();
	for (const n of look.nodes) {
		const w = n.work;
		if (alive(n) && !n.silent) {
			sum.up++;
			sum.slots += n.slots;
			sum.busy += w.busy;
			for (const k of ["ready", "waiting", "running"]) sum[k] += w[k];
		}
		const o = before.get(n.name) || {};
		// A node that did not answer, or that began anew, adds nothing.
		const c = n.silent ? o : {ended: w.ended, won: w.won, tries: w.tries, messages: w.messages, store: w.store_messages, from: new Map((w.stolen_from || []).map(t => [t.victim, t.won]))};
		for (const k of ["ended", "won", "tries", "messages", "store"]) if (o[k] !== undefined) sum[k] += Math.max(c[k] - o[k], 0);
		if (o.from) for (const [victim, won] of c.from) {
			const more = won - (o.from.get(victim) || 0);
			if (more > 0) state.recent.set(n.name + "\0" + victim, {thief: n.name, victim, won: more, at});
		}
		if (old && o.ended !== undefined) state.rate.set(n.name, Math.max(c.ended - o.ended, 0) / ((at - old.at) / 1000));
		counts.set(n.name, c);
	}
	for (const j of look.jobs) if (j.exit_code === null) { sum.jobs++; if (j.state === "waiting") sum.jobsWait++; }
	state.counts = counts;
	const span = old ? Math.max((at - old.at) / 1000, .05) : 1;
	for (const k of ["ended", "won", "tries", "messages", "store"]) sum[k] = old ? sum[k] / span : 0;
	state.looks.push(sum);
	if (state.looks.length > keepLooks) state.looks.shift();
	for (const [k, r] of state.recent) if (at - r.at > 10000) state.recent.delete(k);
	if (!look.jobs.some(j => j.id === state.job)) {
		const best = look.jobs.filter(j => j.exit_code === null && j.kind !== "step").at(-1) || look.jobs.at(-1);
		if (best && !state.job) choose(best.id);
	}
	chooser(look);
	status();
	current[2].looked?.(state);
	redraw();
}

export const alive = n => !["dead", "gone", "left"].includes(n.state);

// chooser lists the jobs, the newest first, unless the list is the same.
let listed = "";
function chooser(look) {
	const list = look.jobs.slice().reverse(), key = list.map(j => j.id + j.name).join("\n") + state.job;
	if (key === listed || document.activeElement === $("job")) return;
	listed = key;
	const options = list.map(j => { const o = make("option", j.id + "  " + clean(j.name).slice(0, 40)); o.value = j.id; return o; });
	if (state.job && !list.some(j => j.id === state.job)) { const o = make("option", String(state.job)); o.value = state.job; options.unshift(o); }
	$("job").replaceChildren(...options);
	$("job").value = state.job || "";
}
$("job").addEventListener("change", e => { choose(+e.target.value); e.target.blur(); });

function status() {
	const age = state.at ? (performance.now() - state.at) / 1000 : 0, e = $("age");
	const late = state.at && performance.now() - state.at > staleAfter + (state.look?.rest || 0) * 1000;
	e.className = trouble || late ? "bad" : "";
	e.textContent = (state.at ? (late ? Math.floor(age) + " s old" : "live") : trouble ? "" : "connecting") + (trouble ? (state.at ? ": " : "") + trouble : "");
	const s = state.looks.at(-1);
	if (!s) return;
	const dead = state.look.nodes.length - s.up;
	$("totals").textContent = s.up + "/" + state.look.nodes.length + " nodes   " + s.busy + "/" + s.slots + " slots   " + number(s.ready) + " ready   " + number(s.ended) + " tasks/s   " + number(s.won) + " steals/s" + (dead ? "   " + dead + " not up" : "");
}
setInterval(status, 500);

// Keys.
const keys = [
	["1 to 7", "the views"], ["/", "show only rows with a text; Esc shows all"], ["[ ]", "the job before, the next job"], ["j k", "another row of the jobs"],
	["e i l", "explain the job, tell all about it, show its last lines"], ["+ - 0", "zoom the timeline or the graph; 0 shows all"], ["arrows", "move in the timeline or the graph"],
	["r", "read again"], ["?", "these keys"],
];
for (const [k, text] of keys) $("keys").insertRow().append(make("td", k), make("td", text));
$("help-button").addEventListener("click", () => $("help").showModal());
$("filter").addEventListener("input", e => { state.filter = e.target.value.toLowerCase(); redraw(); });
addEventListener("keydown", e => {
	if (e.ctrlKey || e.altKey || e.metaKey || $("help").open) return;
	if (e.target === $("filter")) {
		if (e.key === "Escape") { e.target.value = state.filter = ""; redraw(); }
		if (e.key === "Escape" || e.key === "Enter") e.target.blur();
		return;
	}
	if (e.target === $("job")) return;
	if (e.key >= "1" && e.key <= String(views.length)) show(views[e.key - 1][0]);
	else if (e.key === "?") $("help").showModal();
	else if (e.key === "/") slash = true;
	else if (e.key === "[" || e.key === "]") step(e.key === "]" ? 1 : -1);
	else if ("eil".includes(e.key)) { if (current[0] !== "jobs") show("jobs"); jobs.detail(e.key, state); }
	else if (!current[2].key?.(e.key, state)) return;
	e.preventDefault();
});
// The filter gets the focus after the key, or the key would be its first letter.
let slash = false;
addEventListener("keyup", e => { if (e.key === "/" && slash) { slash = false; $("filter").focus(); } });
function step(by) {
	const list = state.look?.jobs || [], at = list.findIndex(j => j.id === state.job);
	if (list.length) choose(list[Math.min(Math.max(at + by, 0), list.length - 1)].id);
}

addEventListener("resize", redraw);
dark.addEventListener("change", redraw);
// A page that nobody sees asks for nothing.
document.addEventListener("visibilitychange", () => {
	if (document.hidden) { source?.close(); clearTimeout(retry); } else connect();
});
const [view, job] = location.hash.slice(1).split("/");
if (+job > 0) state.job = +job;
show(view);
if (!document.hidden) connect();
