// What is wrong with a page, in sentences.
(() => {
  const found = [];
  const shown = (one) => one.checkVisibility({ visibilityProperty: true });
  const parsed = (text) => {
    const numbers = text.match(/[0-9.]+/g).map(Number);
    return [...numbers.slice(0, 3), numbers.length > 3 ? numbers[3] : 1];
  };
  const over = ([r, g, b, a], below) =>
    [r, g, b].map((one, at) => one * a + below[at] * (1 - a));
  const light = (color) => {
    const [r, g, b] = color.map((one) => {
      const part = one / 255;
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  };
  const behind = (node) => {
    const colors = [];
    for (let one = node; one; one = one.parentElement) {
      const color = parsed(getComputedStyle(one).backgroundColor);
      colors.push(color);
      if (color[3] === 1) break;
    }
    return colors.reverse().reduce((below, color) => over(color, below), [255, 255, 255]);
  };
  const drawnBehind = (text) => {
    const box = text.getBoundingClientRect();
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    let below = behind(text.closest("svg"));
    for (const rect of text.closest("svg").querySelectorAll("rect")) {
      const area = rect.getBoundingClientRect();
      if (area.left <= x && x <= area.right && area.top <= y && y <= area.bottom) {
        below = over(parsed(getComputedStyle(rect).fill), below);
      }
    }
    return below;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.data.trim() || !shown(node) || node.tagName === "title") continue;
    const isDrawn = node.tagName === "text";
    const style = getComputedStyle(node);
    const ink = parsed(isDrawn ? style.fill : style.color);
    const below = isDrawn ? drawnBehind(node) : behind(node);
    const ratio = contrast(over(ink, below), below);
    if (ratio < 4.5) found.push(`contrast ${ratio.toFixed(2)}: ${text.data.slice(0, 40)}`);
    if (isDrawn) {
      const view = node.closest("svg").getBoundingClientRect();
      const box = node.getBoundingClientRect();
      if (box.right > view.right + 1 || box.left < view.left - 1) {
        found.push(`drawn over the edge: ${text.data}`);
      }
    }
  }
  for (const svg of document.querySelectorAll("svg")) {
    if (svg.getAttribute("role") !== "img" || !svg.getAttribute("aria-label")) {
      found.push("a drawing without a name");
    }
  }
  for (const one of document.querySelectorAll("summary, a, h1, h2, h3, th, [role=region]")) {
    if (!(one.getAttribute("aria-label") || one.textContent).trim()) {
      found.push(`without a name: ${one.outerHTML.slice(0, 60)}`);
    }
  }
  for (const one of document.querySelectorAll(".scroll")) {
    if (one.tabIndex !== 0) found.push("scrolls, and not by keyboard");
  }
  for (const one of document.querySelectorAll("th")) {
    if (!one.scope) found.push("a heading of a table without scope");
  }
  let level = 0;
  for (const one of document.querySelectorAll("h1, h2, h3")) {
    const next = Number(one.tagName[1]);
    if (next > level + 1) found.push(`heading ${next} below ${level}: ${one.textContent}`);
    level = next;
  }
  const root = document.documentElement;
  if (!root.lang || !document.title) found.push("no language or no title");
  if (root.scrollWidth > root.clientWidth) {
    found.push(`${root.scrollWidth} pixels in ${root.clientWidth}`);
  }
  return found;
})();
