// A button that fills a field of the form, as if it had been typed, instead of sending the form.

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-fill]");
  if (!button) return;
  event.preventDefault();
  const field = document.getElementById(button.dataset.fill);
  field.value = button.value;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus();
});
