// The reader: the answers of one cell of the map, one at a time.
const reader = (() => {
  const dialog = document.getElementById("reader");
  const WORDS = new Set(("and as assert async await break case class continue def del elif else except False finally for from " +
    "global if import in is lambda None nonlocal not or pass raise return True try while with yield " +
    "int long char bool double float void auto const struct using namespace template typename include public private new").split(" "));
  // Strings, remarks, numbers and names; enough to read by, for Python and C++ alike.
  const TOKEN = /("""[^]*?"""|'''[^]*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(#[^\n]*|\/\/[^\n]*)|\b(\d[\w.]*)\b|([A-Za-z_]\w*)/g;
  let place = null, about = {}, answers = [], shown = [], only = null, position = 0, unfolded = true;

  function coloured(program) {
    const pre = make("pre", { tabindex: 0, "aria-label": "program" });
    let last = 0;
    for (const match of program.matchAll(TOKEN)) {
      const kind = match[1] ? "text" : match[2] ? "remark" : match[3] ? "count" : WORDS.has(match[4]) ? "word" : null;
      // In Python // divides: a remark needs a space or a slash behind it, or to begin a line.
      if (!kind || (kind === "remark" && /^\/\/[\w(]/.test(match[2]))) continue;
      pre.append(program.slice(last, match.index), make("span", { class: kind }, match[0]));
      last = match.index + match[0].length;
    }
    pre.append(program.slice(last));
    return pre;
  }

  async function inflate(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  async function load(split, row) {
    const block = document.getElementById(`block-${split}-${row}`);
    const parts = block ? await Promise.all(block.textContent.trim().split(/\s+/).map(inflate)) : [];
    about = parts.find((part) => "statement" in part) || {};
    answers = parts.flatMap((part) => part.answers || []).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  }

  async function open(split, row, alpha) {
    if (!place || place[0] !== split || place[1] !== row) await load(split, row);
    place = [split, row, alpha];
    only = null;
    arrange();
    if (!dialog.open) dialog.showModal();
  }

  function arrange() {
    shown = answers.filter((a) => a[0] === place[2] && (only === null || a[2] === only));
    position = 0;
    draw();
  }

  function step(by) {
    const next = position + by;
    if (next < 0 || next >= shown.length) return;
    position = next;
    draw();
  }

  function turn(by) {
    const next = place[2] + by;
    if (next < 0 || next >= MAP.splits[place[0]].alphas.length) return;
    place[2] = next;
    only = null;
    arrange();
  }

  function button(name, label, act, attributes) {
    const element = make("button", { type: "button", "data-name": name, ...attributes }, label);
    element.addEventListener("click", act);
    return element;
  }

  function head() {
    const { name, names, alphas, problems } = MAP.splits[place[0]];
    const [id, title, difficulty] = problems[place[1]];
    const counts = outcomeMap.counts(place[0], place[1], place[2]);
    const a = place[2];
    const kind = alphas[a] === null ? ", a control" : alphas[a] === 0 ? ", the low checkpoint" : alphas[a] === 1 ? ", the high checkpoint"
      : alphas[a] < 0 || alphas[a] > 1 ? ", extrapolated" : ", interpolated";
    const chips = [["all", null], ...NAMES.map((n, o) => [n, o])].filter(([, o]) => o === null || counts[o]).map(([label, o]) => {
      const here = answers.filter((x) => x[0] === a && (o === null || x[2] === o)).length;
      const of = o === null ? counts.reduce((x, y) => x + y, 0) : counts[o];
      const chip = button("only-" + label, `${label} ${here < of ? here + " of " : ""}${of}`, () => { only = o; arrange(); },
        { class: "chip", "aria-pressed": only === o });
      if (o !== null) chip.prepend(make("span", { class: "swatch " + SHADES[o], "aria-hidden": "true" }));
      return chip;
    });
    return make("header", { class: "reader-head" },
      make("div", { class: "bar" }, make("h2", { id: "reader-title" }, title || id), button("close", "Close", () => dialog.close(), { title: "Esc" })),
      make("p", { class: "sub" }, [title ? id : "", name, difficulty === name ? "" : difficulty].filter(Boolean).join(" · ")),
      make("div", { class: "reader-row" },
        button("alpha-back", "◂", () => turn(-1), { "aria-label": "next lower alpha", title: "[" }),
        make("span", { class: alphas[a] !== null && (alphas[a] < 0 || alphas[a] > 1) ? "beyond" : "" }, make("b", {}, (alphas[a] === null ? "" : "α = ") + names[a]), kind),
        button("alpha-on", "▸", () => turn(1), { "aria-label": "next higher alpha", title: "]" })),
      make("div", { class: "reader-row", role: "group", "aria-label": "Outcomes to show" }, ...chips),
      make("div", { class: "reader-row" },
        button("back", "‹ Previous", () => step(-1), position === 0 ? { disabled: "" } : {}),
        make("span", { role: "status" }, shown.length ? `answer ${position + 1} of ${shown.length}` : "no answer"),
        button("on", "Next ›", () => step(1), position + 1 >= shown.length ? { disabled: "" } : {}),
        make("span", { class: "gap" }),
        make("span", { class: "hint keys" }, "Keys: ", make("kbd", {}, "←"), " ", make("kbd", {}, "→"), " answers, ",
          make("kbd", {}, "["), " ", make("kbd", {}, "]"), " α, ", make("kbd", {}, "Esc"), " back")));
  }

  function tests([, , outcome, , , cause, verdicts, lengths, times, memories, failure]) {
    if (!verdicts.length) {
      const why = outcome === 3 ? "There is no program, so no test was run." : cause ? "It does not compile, so no test was run."
        : "The verdicts of the tests were not kept.";
      return [make("p", { class: "hint" }, why)];
    }
    const limit = 1000 * (about.time || 0), longest = Math.max(...times, limit, 1);
    const rows = verdicts.map((v, t) => {
      const bar = make("span", { class: limit && times[t] >= limit ? "over" : "" });
      bar.style.width = (100 * times[t]) / longest + "%";
      return make("tr", { class: v ? "failed" : null }, make("th", { scope: "row", class: "n" }, String(t + 1)),
        make("td", { class: "n" }, lengths[t].toLocaleString("en")), make("td", {}, (v ? "✕ " : "✓ ") + MAP.verdicts[v]),
        make("td", { class: "n" }, (times[t] / 1000).toFixed(3) + " s"), make("td", { class: "n" }, memories[t].toFixed(1) + " MiB"),
        make("td", { class: "meter", "aria-hidden": "true" }, bar));
    });
    const columns = [["test", "n"], ["length", "n"], ["verdict", ""], ["CPU", "n"], ["memory", "n"], ["", ""]];
    const heads = columns.map(([label, kind]) => make("th", { scope: "col", class: kind }, label));
    const parts = [make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Verdicts of the tests" },
      make("table", { class: "tests" }, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows)))];
    if (about.time) parts.push(make("p", { class: "hint" }, `Limits: ${about.time} s and ${about.memory} MiB for each test.`));
    if (failure) parts.unshift(make("p", { class: "why" }, "First failure: " + failure));
    return parts;
  }

  function body() {
    const section = make("div", { class: "reader-body" });
    const answer = shown[position];
    if (!answer) {
      section.append(make("p", {}, only === null ? "No answer of this cell is in this page." : "No answer with this outcome is in this page."));
    } else {
      const [, index, outcome, tokens, program, cause] = answer;
      section.append(make("p", {}, make("span", { class: "swatch " + SHADES[outcome], "aria-hidden": "true" }), make("b", {}, NAMES[outcome]),
        `${cause ? " (" + cause.replaceAll("_", " ") + ")" : ""} · number ${index} · ${tokens.toLocaleString("en")} tokens`));
      section.append(make("div", {}, make("h3", {}, "Program"),
        program === null ? make("p", { class: "hint" }, outcome === 3 ? "No program could be extracted." : "The text of the program was not kept.") : coloured(program)));
      section.append(make("div", {}, make("h3", {}, "Tests"), ...tests(answer)));
    }
    if (about.statement) {
      const statement = make("details", { class: "across behind" }, make("summary", {}, "Statement"), make("pre", { class: "wrap" }, about.statement));
      statement.open = unfolded;
      statement.addEventListener("toggle", () => { unfolded = statement.open; });
      section.append(statement);
    }
    return section;
  }

  function draw() {
    const focused = dialog.contains(document.activeElement) ? document.activeElement.dataset.name : null;
    dialog.replaceChildren(head(), body());
    if (!focused) return;
    const again = dialog.querySelector(`[data-name="${CSS.escape(focused)}"]`);
    (again && !again.disabled ? again : dialog.querySelector("[data-name=close]")).focus();
  }

  dialog.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("pre, .scroll")) return;
    const act = { ArrowLeft: () => step(-1), ArrowRight: () => step(1), "[": () => turn(-1), "]": () => turn(1) }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  return { open };
})();
