// The elements whose text does not stand out from the ground behind it by WCAG 2's ratio of 4.5.
() => {
  const rgb = (text) => text.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; })
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const color = rgb(getComputedStyle(one).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const poor = new Set();
  for (const one of document.querySelectorAll("main *, header *")) {
    if (![...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) || one.closest(":disabled")) continue;
    const [a, b] = [light(rgb(getComputedStyle(one).color)), light(ground(one))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) poor.add(`${one.tagName}.${one.className}`);
  }
  return [...poor];
}
