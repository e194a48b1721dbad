// Finds sections that have all words of the query, those with the words as a phrase or in a heading first.
"use strict";
const query = document.getElementById("query");
const found = document.getElementById("found");
const menu = document.querySelector("nav details");
if (window.matchMedia("(min-width: 900px)").matches) menu.open = true;

for (const s of sections) {
	s.head = (s.p + " " + s.h).toLowerCase();
	s.low = s.t.toLowerCase();
}

// at is where a text has a word, or the beginning of one; -1 if it has none.
function at(text, word) {
	for (let i = text.indexOf(word); i >= 0; i = text.indexOf(word, i + 1)) {
		if (i === 0 || !/[\p{L}\d]/u.test(text[i - 1])) return i;
	}
	return -1;
}

function matches(text) {
	const words = text.toLowerCase().split(/\s+/).filter(Boolean);
	if (!words.length) return [];
	const phrase = words.join(" ");
	const all = [];
	for (const s of sections) {
		let score = 0;
		for (const w of words) {
			if (at(s.head, w) >= 0) score += 10;
			else if (at(s.low, w) >= 0) score += 1;
			else { score = 0; break; }
		}
		if (!score) continue;
		const whole = at(s.low, phrase);
		if (words.length > 1 && (whole >= 0 || at(s.head, phrase) >= 0)) score += 20;
		all.push({ s, score, place: whole >= 0 ? whole : Math.max(0, at(s.low, words[0])) });
	}
	return all.sort((a, b) => b.score - a.score).slice(0, 20);
}

function show() {
	found.replaceChildren();
	const all = matches(query.value);
	for (const { s, place } of all) {
		const item = document.createElement("li");
		const link = document.createElement("a");
		link.href = found.dataset.top + s.u;
		link.textContent = s.h && s.h !== s.p ? s.p + (s.p.endsWith("?") ? " " : ": ") + s.h : s.p;
		const part = document.createElement("p");
		const from = Math.max(0, place - 60);
		part.textContent = (from ? "… " : "") + s.t.slice(from, from + 160) + " …";
		item.append(link, part);
		found.append(item);
	}
	if (query.value.trim() && !all.length) found.textContent = "Nothing has all of these words.";
	found.hidden = !query.value.trim();
}

query.addEventListener("input", show);
query.value = new URLSearchParams(location.search).get("q") || "";
show();
