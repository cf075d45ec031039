// Who steals from whom: an arrow from the victim to the thief, thick for a steal of the last
// ten seconds.
import {clean, make, css, sized, number} from "./lib.js";
import {alive} from "./app.js";

const nodesMax = 96, edgesMax = 600, pairsMax = 100;
let canvas = null, pairs = null, box = null;

export function enter(main) {
	box = make("div", undefined, "two");
	const left = make("div");
	canvas = make("canvas");
	canvas.id = "steals";
	canvas.setAttribute("role", "img");
	left.append(canvas);
	pairs = make("div");
	box.append(left, pairs);
	main.append(box);
}

export function looked(state) {
	const rows = [];
	for (const n of state.look.nodes) for (const t of n.work.stolen_from || []) {
		if (!(n.name + " " + t.victim).toLowerCase().includes(state.filter)) continue;
		rows.push([n.name, t.victim, t.won, state.recent.has(n.name + "\0" + t.victim)]);
	}
	rows.sort((a, b) => b[3] - a[3] || b[2] - a[2] || a[0].localeCompare(b[0]));
	const t = make("table"), head = t.createTHead().insertRow(), body = t.createTBody();
	head.append(make("th", "thief"), make("th", "victim"), make("th", "steals", "n"), make("th", ""));
	for (const [thief, victim, won, now] of rows.slice(0, pairsMax)) body.insertRow().append(make("td", clean(thief)), make("td", clean(victim)), make("td", number(won), "n"), make("td", now ? "now" : ""));
	pairs?.replaceChildren(t, ...(rows.length ? [] : [make("p", "No node has stolen tasks.", "dim")]), ...(rows.length > pairsMax ? [make("p", "and " + (rows.length - pairsMax) + " more pairs", "dim")] : []));
}

export function draw(state) {
	if (!state.look || !canvas?.isConnected) return;
	if (!pairs.childElementCount) looked(state);
	const edges = [];
	for (const n of state.look.nodes) for (const t of n.work.stolen_from || []) edges.push({thief: n.name, victim: t.victim, won: t.won, fresh: state.recent.has(n.name + "\0" + t.victim)});
	edges.sort((a, b) => b.fresh - a.fresh || b.won - a.won);
	const heat = new Map();
	for (const e of edges) for (const n of [e.thief, e.victim]) heat.set(n, (heat.get(n) || 0) + e.won);
	const all = state.look.nodes.slice().sort((a, b) => (heat.get(b.name) || 0) - (heat.get(a.name) || 0)).slice(0, nodesMax);
	all.sort((a, b) => a.name.localeCompare(b.name, "en", {numeric: true}));
	const [g, w, h] = sized(canvas, Math.max(box.clientHeight - 4, 240));
	const r = Math.min(w, h) / 2 - 46, at = new Map();
	all.forEach((n, i) => { const a = i / all.length * 2 * Math.PI - Math.PI / 2; at.set(n.name, [w / 2 + r * Math.cos(a), h / 2 + r * Math.sin(a), a]); });
	for (const e of edges.slice(0, edgesMax).reverse()) {
		const from = at.get(e.victim), to = at.get(e.thief);
		if (!from || !to) continue;
		g.strokeStyle = g.fillStyle = css(e.fresh ? "--run" : "--dim");
		g.globalAlpha = e.fresh ? 1 : .35;
		g.lineWidth = e.fresh ? 2.5 : 1;
		// Bent to one side, so that two nodes that steal from each other have two arrows.
		const mx = (from[0] + to[0]) / 2 * .75 + w / 8 + (to[1] - from[1]) * .12, my = (from[1] + to[1]) / 2 * .75 + h / 8 - (to[0] - from[0]) * .12;
		g.beginPath();
		g.moveTo(from[0], from[1]);
		g.quadraticCurveTo(mx, my, to[0], to[1]);
		g.stroke();
		const a = Math.atan2(to[1] - my, to[0] - mx), x = to[0] - 9 * Math.cos(a), y = to[1] - 9 * Math.sin(a);
		g.beginPath();
		g.moveTo(x, y);
		g.lineTo(x - 9 * Math.cos(a - .4), y - 9 * Math.sin(a - .4));
		g.lineTo(x - 9 * Math.cos(a + .4), y - 9 * Math.sin(a + .4));
		g.fill();
	}
	g.globalAlpha = 1;
	for (const n of all) {
		const [x, y, a] = at.get(n.name), part = n.slots ? n.work.busy / n.slots : 0;
		g.fillStyle = css("--back");
		g.strokeStyle = alive(n) && !n.silent ? css("--text") : css("--bad");
		g.lineWidth = 1.5;
		g.beginPath(); g.arc(x, y, 8, 0, 2 * Math.PI); g.fill(); g.stroke();
		g.fillStyle = css("--ok");
		g.beginPath(); g.moveTo(x, y); g.arc(x, y, 6.5, -Math.PI / 2, -Math.PI / 2 + part * 2 * Math.PI); g.fill();
		g.fillStyle = css("--text");
		g.textAlign = Math.abs(Math.cos(a)) < .3 ? "center" : Math.cos(a) > 0 ? "left" : "right";
		if (all.length <= 48) g.fillText(clean(n.name).slice(0, 12), x + 14 * Math.cos(a), y + (Math.abs(Math.cos(a)) < .3 ? 18 : 14) * Math.sin(a));
	}
	canvas.setAttribute("aria-label", edges.length + " pairs of nodes with steals");
	state.say("An arrow goes from the victim to the thief, blue for the last ten seconds; a disk is the busy part of the slots." + (all.length < state.look.nodes.length ? " The " + all.length + " nodes with the most steals are drawn." : ""));
}
