// Rates and queues of the last ten minutes, while the page was open.
import {make, css, sized, number} from "./lib.js";

const charts = [
	["busy", "slots busy", "slots", "--ok"], ["ended", "tasks ended, a second", null, "--run"], ["running", "tasks running", null, "--run"],
	["ready", "tasks ready", null, "--ready"], ["waiting", "tasks that wait for others", null, "--other"], ["jobsWait", "jobs that wait", "jobs", "--other"],
	["won", "steals, a second", null, "--stage"], ["messages", "messages between nodes, a second", null, "--dim"], ["store", "messages of the store, a second", null, "--dim"],
];
let list = [];

export function enter(main) {
	const grid = make("div", undefined, "charts");
	list = charts.map(([key, title, most, color]) => {
		const f = make("figure"), head = make("figcaption"), value = make("b"), canvas = make("canvas");
		head.append(make("span", title), value);
		canvas.setAttribute("role", "img");
		canvas.setAttribute("aria-label", title);
		f.append(head, canvas);
		grid.append(f);
		return {key, most, color, value, canvas};
	});
	main.append(grid);
}

export function draw(state) {
	const looks = state.looks;
	if (!looks.length) return;
	const end = looks.at(-1).at, span = Math.min(Math.max(end - looks[0].at, 60000), 600000);
	for (const c of list) {
		if (!c.canvas.isConnected) continue;
		const [g, w, h] = sized(c.canvas, 110), low = h - 16;
		const from = looks.findIndex(l => l.at >= end - span), shown = looks.slice(Math.max(from, 0));
		const most = Math.max(...shown.map(l => c.most ? l[c.most] : l[c.key]), 1);
		const x = at => w - (end - at) / span * w, y = v => low - v / most * (low - 8);
		c.value.textContent = number(looks.at(-1)[c.key]) + (c.most ? " of " + number(looks.at(-1)[c.most]) : "");
		g.strokeStyle = css("--line");
		g.beginPath(); g.moveTo(0, low + .5); g.lineTo(w, low + .5); g.moveTo(0, 8.5); g.lineTo(w, 8.5); g.stroke();
		g.beginPath();
		shown.forEach((l, i) => i ? g.lineTo(x(l.at), y(l[c.key])) : g.moveTo(x(l.at), y(l[c.key])));
		g.strokeStyle = css(c.color); g.lineWidth = 1.5; g.stroke();
		g.lineTo(x(shown.at(-1).at), low); g.lineTo(x(shown[0].at), low); g.closePath();
		g.globalAlpha = .18; g.fillStyle = css(c.color); g.fill(); g.globalAlpha = 1;
		g.fillStyle = css("--dim"); g.font = "11px system-ui, sans-serif";
		g.textAlign = "left"; g.fillText(number(most), 2, 16);
		g.fillText(Math.round(span / 1000) + " s ago", 2, h - 6);
		g.textAlign = "right"; g.fillText("now", w - 2, h - 6);
	}
}
