// Keeps a list of events up to date while it is looked at: when something happens, the server renders
// the list anew. A connection that breaks goes on behind the last event, so nothing is missed.
// <section data-stream="/api/v1/events/stream?…" data-after="1-2" data-types="a b">

const PAUSE_MS = 500; // between two renderings at least
const AGAIN_MS = 15_000; // after a refusal
const list = () => document.querySelector("[data-stream]");

let source = null;
let after = list()?.dataset.after;
let due = 0;
let live = false;

function say() {
  const state = document.querySelector("[data-stream-state]");
  if (!state) return;
  state.hidden = false;
  state.textContent = live ? "Live: what happens appears here by itself." : "Not live; trying again.";
}

function happened(event) {
  if (event.lastEventId) after = event.lastEventId;
  if (due) return;
  due = setTimeout(() => {
    due = 0;
    if (list()) window.htmx.trigger(list(), "happened");
  }, PAUSE_MS);
}

function open() {
  if (source || document.hidden || !list()) return;
  const address = new URL(list().dataset.stream, location.href);
  address.searchParams.set("after", after);
  source = new EventSource(address);
  source.onopen = () => { live = true; say(); };
  source.onerror = () => {
    live = false;
    say();
    if (source.readyState === EventSource.CLOSED) {
      close();
      setTimeout(open, AGAIN_MS);
    }
  };
  for (const type of [...list().dataset.types.split(" "), "reset"]) source.addEventListener(type, happened);
}

function close() {
  source?.close();
  source = null;
}

// A browser has few connections to a server: a page that nobody sees needs none.
document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
document.addEventListener("htmx:afterSwap", say);
open();
