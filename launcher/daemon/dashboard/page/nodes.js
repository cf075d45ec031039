// The slots of all nodes: a cell for each slot, in the color of the job that has the slot.
// Above manyNodes, a node is a small square without a name.
import {clean, make, css, jobColor, sized} from "./lib.js";
import {alive} from "./app.js";

const manyNodes = 64, cellsMax = 1024;
let canvas = null, legend = null, places = [], hover = null;

export function enter(main, state) {
	canvas = make("canvas");
	canvas.id = "heat";
	canvas.setAttribute("role", "img");
	legend = make("p", "", "row dim");
	main.append(legend, canvas);
	canvas.addEventListener("pointermove", e => { hover = places.find(p => e.offsetX >= p.x && e.offsetX < p.x + p.w && e.offsetY >= p.y && e.offsetY < p.y + p.h); state.say(hover ? tell(hover.node) : ""); });
	canvas.addEventListener("click", e => {
		const p = places.find(p => e.offsetX >= p.x && e.offsetX < p.x + p.w && e.offsetY >= p.y && e.offsetY < p.y + p.h);
		const h = p?.node.holders?.[0];
		if (h) state.choose(h.id);
	});
}

function tell(n) {
	const w = n.work, what = !alive(n) ? n.state : n.silent ? "no answer" : n.state;
	const held = (n.holders || []).map(h => "job " + h.id + ": " + h.slots + (h.gathers ? " gathering" : "")).join(", ");
	return clean(n.name) + ": " + what + ", " + w.busy + "/" + n.slots + " slots busy, " + w.ready + " tasks ready" + (held ? "; " + held : "");
}

// cells are the colors of the slots of a node, as filch top shows them: [color, style].
function cells(n) {
	const total = Math.min(n.slots, cellsMax), list = [];
	const put = (k, color, style) => { for (let i = 0; i < k && list.length < total; i++) list.push([color, style]); };
	if (!alive(n)) { put(total, css("--bad"), "cross"); return list; }
	if (n.silent) { put(total, css("--other"), "cross"); return list; }
	for (const h of n.holders || []) {
		put(h.slots - (h.spare || 0), jobColor(h.id), h.gathers ? "hollow" : "full");
		put(h.spare || 0, jobColor(h.id), "hollow");
	}
	put(n.stuck || 0, css("--bad"), "full");
	put(total - list.length, css("--idle"), n.state === "draining" ? "hollow" : "full");
	return list;
}

export function draw(state) {
	if (!state.look || !canvas?.isConnected) return;
	const shown = state.look.nodes.filter(n => n.name.toLowerCase().includes(state.filter));
	shown.sort((a, b) => a.name.localeCompare(b.name, "en", {numeric: true}));
	const many = shown.length > manyNodes, width = canvas.clientWidth;
	const most = Math.min(Math.max(...shown.map(n => n.slots), 1), cellsMax);
	places = [];
	let height = 0;
	if (many) {
		const side = Math.ceil(Math.sqrt(most)), room = canvas.parentElement.clientHeight - legend.offsetHeight - 40;
		let size = 12, box, across; // the largest squares that fit, or the smallest
		do {
			size--;
			box = side * size + (size > 4 ? 5 : 3);
			across = Math.max(1, Math.floor(width / box));
		} while (size > 2 && Math.ceil(shown.length / across) * box > room);
		shown.forEach((node, i) => places.push({node, x: i % across * box, y: Math.floor(i / across) * box, w: box, h: box, cx: 0, side, size}));
		height = Math.ceil(shown.length / across) * box;
	} else {
		const label = 100, tail = 120, room = Math.max(width - label - tail, 120);
		const size = Math.max(6, Math.min(22, Math.floor(room / Math.min(most, 64))));
		const side = Math.max(1, Math.min(most, Math.floor(room / size)));
		let y = 0;
		for (const node of shown) {
			const h = Math.max(Math.ceil(Math.min(node.slots, cellsMax) / side), 1) * size + 6;
			places.push({node, x: 0, y, w: width, h, cx: label, side, size});
			y += h;
		}
		height = y;
	}
	const [g, w] = sized(canvas, Math.max(height, 20));
	for (const p of places) {
		cells(p.node).forEach(([color, style], i) => {
			const x = p.x + p.cx + i % p.side * p.size, y = p.y + Math.floor(i / p.side) * p.size, s = p.size - (p.size > 4 ? 2 : p.size > 2 ? 1 : 0);
			g.fillStyle = g.strokeStyle = color;
			if (style === "full") g.fillRect(x, y, s, s);
			else if (style === "hollow" && s > 4) { g.lineWidth = 2; g.strokeRect(x + 1, y + 1, s - 2, s - 2); }
			else if (style === "cross" && s > 4) { g.lineWidth = 1.5; g.beginPath(); g.moveTo(x + 1, y + 1); g.lineTo(x + s - 1, y + s - 1); g.moveTo(x + s - 1, y + 1); g.lineTo(x + 1, y + s - 1); g.stroke(); }
			else if (style === "cross") g.fillRect(x, y, s, s);
			else { g.globalAlpha = .5; g.fillRect(x, y, s, s); g.globalAlpha = 1; }
		});
		if (many) continue;
		const n = p.node, mid = p.y + (p.h - 6) / 2;
		g.fillStyle = alive(n) && !n.silent ? css("--text") : css("--bad");
		g.textAlign = "left";
		g.fillText(clean(n.name).slice(0, 13), 2, mid);
		const x = p.cx + Math.min(p.side, most) * p.size + 12;
		g.fillText(!alive(n) ? n.state : n.silent ? "no answer" : n.work.busy + "/" + n.slots + (n.state === "up" ? "" : " " + n.state), x, mid);
	}
	canvas.setAttribute("aria-label", shown.length + " nodes; " + shown.filter(n => !alive(n)).length + " dead");
	key(state);
}

// key names the jobs that have slots.
let keyed = "";
function key(state) {
	const ids = new Map();
	for (const n of state.look.nodes) for (const h of n.holders || []) ids.set(h.id, (ids.get(h.id) || 0) + h.slots);
	const top = [...ids].sort((a, b) => b[1] - a[1]).slice(0, 12);
	const text = top.map(([id, n]) => id + " " + n).join() + css("--light");
	if (text === keyed && legend.childElementCount) return;
	keyed = text;
	legend.replaceChildren(...(top.length ? top.map(([id, n]) => {
		const job = state.look.jobs.find(j => j.id === id), e = make("span"), dot = make("span", undefined, "dot");
		dot.style.background = jobColor(id);
		e.append(dot, id + (job?.name ? " " + clean(job.name).slice(0, 24) : "") + ": " + n + (n === 1 ? " slot" : " slots"));
		return e;
	}) : [make("span", "no job has slots")]), ...(ids.size > top.length ? [make("span", "and " + (ids.size - top.length) + " more jobs")] : []), make("span", "a frame: held, or drains; a cross: dead, or no answer"));
}
