// What is shown once goes when its page is left: Back must not bring it again from memory.

addEventListener("pagehide", () => {
  for (const element of document.querySelectorAll("[data-once]")) element.remove();
});
