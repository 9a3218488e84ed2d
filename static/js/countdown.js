// Keeps "in 3 h 12 min" beside an instant true while the page is open.
// <span data-until="2026-12-01T08:00:00Z" data-before="Ends in" data-after="Ended">…</span>
// Time is the server's: <body> is rendered together with data-now on each element.

const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1_000]];
const skews = new WeakMap();

function words(ms) {
  const parts = [];
  let rest = Math.max(0, ms);
  for (const [label, size] of UNITS) {
    const number = Math.floor(rest / size);
    rest -= number * size;
    if (number > 0) parts.push(`${number}\u00a0${label}`);
    else if (parts.length > 0) break;
  }
  return parts.slice(0, 2).join(" ") || "0\u00a0s";
}

function tick() {
  for (const element of document.querySelectorAll("[data-until]")) {
    if (!skews.has(element)) skews.set(element, Date.parse(element.dataset.now) - Date.now());
    const left = Date.parse(element.dataset.until) - (Date.now() + skews.get(element));
    const text = left > 0 ? `${element.dataset.before} ${words(left)}` : element.dataset.after;
    if (element.textContent !== text) element.textContent = text;
  }
}

tick();
setInterval(tick, 1000);
