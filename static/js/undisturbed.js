// A part that renews itself waits while a person is in it: writes, is at a button, or points at one.
// Otherwise what was written is lost, or a button goes from under the pointer to another question.
// <div data-undisturbed hx-get="…" hx-trigger="every 15s">

function isBusy(part) {
  const written = [...part.querySelectorAll("input")].some((field) => field.value !== field.defaultValue);
  return written || part.matches(":focus-within") || part.querySelector(".answers:hover") !== null;
}

for (const moment of ["htmx:beforeRequest", "htmx:beforeSwap"]) {
  document.addEventListener(moment, (event) => {
    if (event.target.matches("[data-undisturbed]") && isBusy(event.target)) event.preventDefault();
  });
}
