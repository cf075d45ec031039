// The jobs, and what filch explain, info and logs say about the chosen one.
import {clean, lines, make, time, number, fetchData, table, jobColor, stateColor} from "./lib.js";

const rowsMax = 200, pause = 2000, // the second: between two readings
	 kinds = {e: ["explain", "why it waits"], i: ["info", "all about it"], l: ["logs", "last lines"]};
let top = null, text = null, title = null, order = "", kind = "e", reading = null, buttons = [], seen = "", at = 0;

export function enter(main, state) {
	const split = make("div", undefined, "split");
	top = make("div");
	const low = make("div"), bar = make("div", undefined, "row");
	title = make("h2");
	buttons = Object.entries(kinds).map(([k, [what, label]]) => {
		const b = make("button");
		b.append(make("kbd", k), what);
		b.title = label;
		b.addEventListener("click", () => detail(k, state));
		return b;
	});
	text = make("pre");
	text.id = "detail";
	bar.append(title, ...buttons);
	low.append(bar, text);
	split.append(top, low);
	main.append(split);
	top.addEventListener("click", e => { const r = e.target.closest("tr[data-job]"); if (r) state.choose(+r.dataset.job); });
	detail(kind, state);
}
export function leave() { reading?.abort(); }
// looked reads again when the chosen job changes.
export function looked(state) {
	const j = state.look.jobs.find(j => j.id === state.job), now = j && [j.state, j.cause, j.lacks, j.held_by].join("\n");
	if (now !== seen && performance.now() - at > pause) { seen = now; detail(kind, state); }
}
export function chosen(state) { detail(kind, state); }
export function key(k, state) {
	if (k === "r") { detail(kind, state); return true; }
	const by = {j: 1, ArrowDown: 1, k: -1, ArrowUp: -1}[k];
	if (!by || !state.look) return false;
	const list = rows(state), at = list.findIndex(j => j.id === state.job);
	if (list.length) state.choose(list[Math.min(Math.max(at + by, 0), list.length - 1)].id);
	return true;
}

// detail reads what a command says about the chosen job.
export async function detail(k, state) {
	kind = k;
	reading?.abort();
	if (!text?.isConnected) return;
	buttons.forEach((b, i) => b.setAttribute("aria-selected", Object.keys(kinds)[i] === k));
	const job = state.job;
	title.textContent = job ? "Job " + job : "No job";
	if (!job) { text.textContent = ""; return; }
	reading = new AbortController();
	at = performance.now();
	const signal = reading.signal;
	try {
		const said = await fetchData(kinds[k][0], job, signal);
		text.textContent = lines(said);
		text.className = "";
	} catch (e) {
		if (signal.aborted) return;
		text.textContent = lines(e.message);
		text.className = "bad";
	}
}

function rows(state) {
	const list = state.look.jobs.filter(j => (j.id + " " + j.name + " " + j.kind + " " + j.state + " " + (j.cause || "")).toLowerCase().includes(state.filter));
	const live = j => j.exit_code === null ? 0 : 1;
	const by = {id: (a, b) => b.id - a.id, name: (a, b) => a.name.localeCompare(b.name), state: (a, b) => a.state.localeCompare(b.state), elapsed: (a, b) => b.elapsed - a.elapsed, waited: (a, b) => b.waited - a.waited}[order];
	return list.sort((a, b) => by ? by(a, b) || b.id - a.id : live(a) - live(b) || b.id - a.id);
}

export function draw(state) {
	if (!state.look || !top?.isConnected) return;
	const slots = new Map();
	for (const n of state.look.nodes) for (const h of n.holders || []) slots.set(h.id, (slots.get(h.id) || 0) + h.slots);
	const [t, body] = table([["job", "n", "id"], ["name", "", "name"], ["kind"], ["state", "", "state"], ["done"], ["slots", "n"], ["waited", "n", "waited"], ["took", "n", "elapsed"], ["where, or why it waits"]], order || "id", k => { order = order === k ? "" : k; state.redraw(); });
	const list = rows(state);
	for (const j of list.slice(0, rowsMax)) {
		const r = body.insertRow(), name = make("td", undefined, "name"), dot = make("span", undefined, "dot"), done = make("td", undefined, "s"), s = make("td", undefined, "s"), c = j.tasks;
		r.dataset.job = j.id;
		if (j.id === state.job) r.className = "pick";
		dot.style.background = jobColor(j.id);
		name.append(dot, clean(j.name));
		const sd = make("span", undefined, "dot");
		sd.style.background = stateColor(j.state);
		s.append(sd, clean(j.state) + (j.exit_code ? " " + j.exit_code : "") + (j.held_by ? ", held" : ""));
		if (j.kind === "bag" || j.kind === "workflow") {
			const p = make("progress"), over = c.total - c.waiting - c.ready - c.running, bad = c.failed + c.killed + c.lost;
			p.max = c.total || 1;
			p.value = over;
			done.append(p, " " + number(over) + "/" + number(c.total), ...(bad ? [make("span", " " + bad + " bad", "bad")] : []));
		} else done.append(number(j.ranks) + (j.ranks === 1 ? " rank" : " ranks"));
		const where = j.lacks || j.cause || (j.exit_code === null ? (j.nodes || []).join(", ") : "");
		r.append(make("td", j.id, "n"), name, make("td", clean(j.kind)), s, done, make("td", slots.get(j.id) || 0, "n"), make("td", time(j.waited), "n"), make("td", time(j.elapsed), "n"), make("td", clean(where), "why"));
	}
	const rest = (state.look.more || 0) + Math.max(list.length - rowsMax, 0);
	top.replaceChildren(t, ...(rest ? [make("p", "and " + rest + " more: filch ps", "dim")] : []), ...(list.length ? [] : [make("p", "No job.", "dim")]));
}
