// The map: one row for each problem, one cell for each alpha, filled by the shares of the outcomes.
const MAP = JSON.parse(document.getElementById("map-data").textContent);
const SHADES = ["correct", "optimization", "correctness", "format"];
const NAMES = ["correct", "optimization failure", "correctness failure", "format error"];

const outcomeMap = (() => {
  const byId = (name) => document.getElementById("map-" + name);
  const table = byId("table");
  const pick = byId("split"), sort = byId("sort"), find = byId("find");
  let split, order = [], column = null, rising = true, at = [0, 0];

  const counts = (row, a) => MAP.splits[split].counts[a].slice(4 * row, 4 * row + 4);
  const total = (numbers) => numbers.reduce((x, y) => x + y, 0);
  const solved = (row, a) => { const c = counts(row, a); return c[0] / total(c); };
  const mean = (row, alphas) => total(alphas.map((a) => solved(row, a))) / alphas.length;
  // "3" before "12", and ids without numbers in the order of the alphabet.
  const collator = new Intl.Collator("en", { numeric: true });

  function sorts() {
    const { ends, alphas, names, stable, problems } = MAP.splits[split];
    const range = stable.length ? stable : alphas.map((_, a) => a);
    const found = [["difficulty (hardest first)", (r) => mean(r, range)]];
    if (problems.some((p) => p[2])) found.push(["stated difficulty", (r) => problems[r][2]]);
    if (ends[0] !== null) found.push(["solve rate at low", (r) => -solved(r, ends[0])]);
    if (ends[1] !== null) found.push(["solve rate at high", (r) => -solved(r, ends[1])]);
    if (range.length > 1) {
      const [first, last] = [range[0], range[range.length - 1]];
      found.push([`change from ${names[first]} to ${names[last]} (gains first)`, (r) => solved(r, first) - solved(r, last)]);
    }
    found.push(["id", (r) => problems[r][0]]);
    return found;
  }

  function arrange() {
    const { problems, names } = MAP.splits[split];
    const wanted = find.value.trim().toLowerCase();
    order = problems.map((_, r) => r).filter((r) => (problems[r][0] + " " + problems[r][1]).toLowerCase().includes(wanted));
    const key = column === null ? sorts()[sort.selectedIndex][1] : (r) => (rising ? 1 : -1) * solved(r, column);
    const compare = (a, b) => (typeof a === "string" ? collator.compare(a, b) : a - b);
    const keys = new Map(order.map((r) => [r, key(r)]));
    order.sort((a, b) => compare(keys.get(a), keys.get(b)) || collator.compare(problems[a][0], problems[b][0]));
    const by = column === null ? sort.value : `solve rate at ${called(column)}, ${rising ? "lowest" : "highest"} first`;
    byId("said").textContent = `${order.length} of ${problems.length} problems, by ${by}.`;
    at = [0, Math.min(at[1], names.length - 1)];
    draw();
  }

  function fill(numbers) {
    const all = total(numbers), stops = [];
    let upTo = 0;
    numbers.forEach((n, o) => {
      if (!n) return;
      const from = upTo;
      upTo += (100 * n) / all;
      stops.push(`var(--${SHADES[o]}) ${from}% ${upTo}%`);
    });
    return `linear-gradient(0deg, ${stops.join(",")})`;
  }

  const called = (a) => (MAP.splits[split].alphas[a] === null ? "" : "α = ") + MAP.splits[split].names[a];
  const spoken = (numbers) => numbers.map((n, o) => (n ? `${n} ${NAMES[o]}` : "")).filter(Boolean).join(", ");

  function draw() {
    const { names, alphas, problems, ends } = MAP.splits[split];
    const head = make("tr", {}, make("th", { scope: "col" }, "problem"));
    alphas.forEach((alpha, a) => {
      const end = ends.indexOf(a);
      const button = make("button", { type: "button", title: "sort by the solve rate here" }, names[a]);
      button.addEventListener("click", () => {
        rising = column === a ? !rising : false;
        column = a;
        sort.selectedIndex = -1;
        arrange();
        table.tHead.rows[0].cells[a + 1].firstChild.focus();
      });
      const order = column !== a ? "none" : rising ? "ascending" : "descending";
      const kind = end >= 0 ? "end" : alpha !== null && (alpha < 0 || alpha > 1) ? "beyond" : "";
      head.append(make("th", { scope: "col", class: kind, "aria-sort": order }, button));
    });
    const rows = order.map((r, i) => {
      const [id, title] = problems[r];
      const name = title ? [title, make("small", {}, id)] : [id];
      const row = make("tr", {}, make("th", { scope: "row", title: title ? `${title} (${id})` : id }, ...name));
      alphas.forEach((_, a) => {
        const numbers = counts(r, a);
        const cell = make("td", { role: "gridcell", tabindex: i === at[0] && a === at[1] ? 0 : -1,
          "aria-label": `${called(a)}: ${spoken(numbers)}`, title: `${called(a)}: ${spoken(numbers)}` });
        cell.style.backgroundImage = fill(numbers);
        row.append(cell);
      });
      return row;
    });
    table.replaceChildren(make("thead", {}, head), make("tbody", {}, ...rows));
  }

  const cellAt = (i, a) => table.tBodies[0].rows[i].cells[a + 1];

  const placeOf = (cell) => [cell.parentElement.rowIndex - 1, cell.cellIndex - 1];

  function go(i, a) {
    if (!order.length) return;
    const old = cellAt(...at);
    at = [Math.max(0, Math.min(order.length - 1, i)), Math.max(0, Math.min(MAP.splits[split].alphas.length - 1, a))];
    old.tabIndex = -1;
    const cell = cellAt(...at);
    cell.tabIndex = 0;
    cell.focus({ preventScroll: true });
    cell.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  table.addEventListener("keydown", (event) => {
    if (event.target.tagName !== "TD" || event.altKey || event.metaKey) return;
    const [i, a] = placeOf(event.target), whole = event.ctrlKey;
    const moves = {
      ArrowLeft: [i, a - 1], ArrowRight: [i, a + 1], ArrowUp: [i - 1, a], ArrowDown: [i + 1, a],
      Home: [whole ? 0 : i, 0], End: [whole ? Infinity : i, Infinity], PageUp: [i - 10, a], PageDown: [i + 10, a],
    };
    if (moves[event.key]) go(...moves[event.key]);
    else if (event.key === "Enter" || event.key === " ") reader.open(split, order[i], a);
    else return;
    event.preventDefault();
  });
  table.addEventListener("click", (event) => {
    const cell = event.target.closest("td");
    if (!cell) return;
    go(...placeOf(cell));
    reader.open(split, order[at[0]], at[1]);
  });

  function choose(index) {
    split = index;
    column = null;
    at = [0, 0];
    sort.replaceChildren(...sorts().map(([name]) => make("option", {}, name)));
    arrange();
  }
  pick.append(...MAP.splits.map(({ name }) => make("option", {}, name)));
  pick.addEventListener("change", () => choose(pick.selectedIndex));
  sort.addEventListener("change", () => { column = null; arrange(); });
  find.addEventListener("input", arrange);
  pick.parentElement.hidden = MAP.splits.length < 2;
  document.getElementById("map").hidden = false;
  choose(0);
  return { counts: (s, r, a) => MAP.splits[s].counts[a].slice(4 * r, 4 * r + 4) };
})();
