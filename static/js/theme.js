// Light, dark or the system's choice, kept in a cookie so that the server renders it without a flash.

for (const group of document.querySelectorAll("[data-theme-switch]")) {
  group.hidden = false;
  group.addEventListener("change", (event) => {
    const theme = event.target.value;
    document.cookie = `theme=${theme}; path=/; max-age=${theme ? 31536000 : 0}; samesite=lax`;
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  });
}
