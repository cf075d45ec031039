// The jobs that have ended, of all instances of the user.
import {clean, make, time, when, number, fetchData, table, stateColor} from "./lib.js";

const rowsMax = 300, pause = 3000; // the second: between two readings
let box = null, list = null, fault = "", reading = null, shown = "", known = "", at = 0;

export function enter(main, state) {
	box = make("div");
	main.append(box);
	shown = "";
	read(state);
}
export function leave() { reading?.abort(); }
export function key(k, state) { if (k === "r") { read(state); return true; } }

// looked reads again when a job of the instance has ended.
export function looked(state) {
	const now = ends(state);
	if (now !== known && performance.now() - at > pause) read(state);
}
const ends = state => (state.look?.jobs || []).filter(j => j.exit_code !== null).map(j => j.id).join();

async function read(state) {
	reading?.abort();
	at = performance.now();
	known = ends(state);
	reading = new AbortController();
	try {
		list = await fetchData("history", 0, reading.signal);
		fault = "";
	} catch (e) {
		if (e.name === "AbortError") return;
		fault = clean(e.message);
	}
	shown = "";
	state.redraw();
}

export function draw(state) {
	if (!box?.isConnected || shown === state.filter + "\n" && list) return;
	shown = state.filter + "\n";
	if (!list) { box.replaceChildren(make("p", fault || "reading the history", fault ? "bad" : "dim")); return; }
	const [t, body] = table([["instance"], ["job", "n"], ["name"], ["kind"], ["state"], ["ended"], ["waited", "n"], ["took", "n"], ["tasks or ranks", "n"], ["cpu", "n"]]);
	const rows = list.filter(j => (j.instance + " " + j.id + " " + j.name + " " + j.kind + " " + j.state).toLowerCase().includes(state.filter)).reverse();
	for (const j of rows.slice(0, rowsMax)) {
		const s = make("td", undefined, "s"), dot = make("span", undefined, "dot");
		dot.style.background = stateColor(j.state);
		s.append(dot, clean(j.state) + (j.exit_code ? " " + j.exit_code : "") + (j.again ? ", again" : ""));
		body.insertRow().append(make("td", clean(j.instance)), make("td", j.id, "n"), make("td", clean(j.name), "name"), make("td", clean(j.kind)), s, make("td", when(j.ended_unix_ns)),
			make("td", time(j.waited), "n"), make("td", time(j.elapsed), "n"), make("td", number(j.tasks.total || j.ranks), "n"), make("td", time((j.cpu_user || 0) + (j.cpu_system || 0)), "n"));
	}
	box.replaceChildren(t, make("p", rows.length > rowsMax ? "and " + (rows.length - rowsMax) + " more: filch history --all" : rows.length ? "" : "No job has ended.", "dim"));
	state.say("Ended jobs of all instances, the last first" + (fault ? "; " + fault : "") + ". r reads again.");
}
