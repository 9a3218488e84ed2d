// Light or dark as chosen, before anything is painted; theme.js keeps the choice in this cookie.

const chosen = document.cookie.match(/(?:^|; )theme=(light|dark)/);
if (chosen) document.documentElement.dataset.theme = chosen[1];
