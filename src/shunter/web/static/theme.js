"use strict";
// Light or dark as it was last chosen here, before anything is drawn.
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // no storage in this browser: as the system prefers
}
