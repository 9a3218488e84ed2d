// What is shown once goes when its page is left: Back must not bring it again from memory.
// And a form that is pressed twice is sent once.

const AGAIN_MS = 3000;  // then whoever presses means it: the answer does not come

addEventListener("pagehide", () => {
  for (const element of document.querySelectorAll("[data-once]")) element.remove();
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post" || event.defaultPrevented) return;
  if (form.dataset.sent) return event.preventDefault();
  form.dataset.sent = "now";
  setTimeout(() => { delete form.dataset.sent; }, AGAIN_MS);
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});
