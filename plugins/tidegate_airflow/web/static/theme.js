// Light or dark as Airflow shows itself; outside of it as it was chosen there last, else as the system prefers.
(() => {
  const outer = () => {
    try {
      return window.parent === window ? null : window.parent.document.documentElement;
    } catch {
      return null;
    }
  };
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    const airflow = outer();
    if (airflow?.classList.contains("dark")) return "dark";
    if (airflow?.classList.contains("light")) return "light";
    const kept = window.localStorage.getItem("theme");
    return kept === "dark" || kept === "light" ? kept : system.matches ? "dark" : "light";
  };
  const show = () => {
    if (document.documentElement.dataset.theme === chosen()) return;
    document.documentElement.dataset.theme = chosen();
    window.dispatchEvent(new Event("themechange"));
  };
  show();
  system.addEventListener("change", show);
  window.addEventListener("storage", show);
  const airflow = outer();
  if (airflow) new MutationObserver(show).observe(airflow, { attributes: true, attributeFilter: ["class"] });
})();
