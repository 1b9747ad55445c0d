"use strict";
// Draws what the page embeds: charts, the linked view of configurations, and CSV files to save.
// Colours of text and lines are `currentColor`, so that dark mode and paper need no second drawing.
(() => {
  const { vegaEmbed } = window;
  const data = JSON.parse(document.getElementById("data").textContent);
  const INK = "currentColor";
  const PALETTE = data.palette;
  const TEXT = { labelColor: INK, titleColor: INK };
  const config = {
    background: null,
    font: "system-ui, sans-serif",
    view: { stroke: null },
    axis: { ...TEXT, domainColor: INK, tickColor: INK, gridColor: INK, gridOpacity: 0.12 },
    legend: TEXT,
    header: TEXT,
    title: { color: INK, subtitleColor: INK },
    range: { category: PALETTE },
  };
  const options = { renderer: "svg", actions: false, config };
  const views = {};
  let brushes = [];

  // -------------------------------------------------------------------- tables

  function save(name, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  /** Return the cells of each line of a CSV text; a quoted cell may have commas and quotes. */
  function cellsOf(line) {
    const cells = [];
    for (const [, quoted, plain] of line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)) {
      cells.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    }
    return cells;
  }

  for (const button of document.querySelectorAll("button[data-csv]")) {
    const name = button.dataset.csv;
    button.addEventListener("click", () => save(`${name}.csv`, data.tables[name]));
  }

  // -------------------------------------------------------------------- the linked view

  const HIGH = 300, GAP = 84, LOW = 240, TOP = HIGH + GAP, SLACK = 3;
  const of = (name) => `datum[${JSON.stringify(name)}]`;

  /** Return the scale of one axis: places for words and few numbers, else numbers or decades. */
  function scaleOf(name, field, rows, range, isResult, decades = 20) {
    const values = [...new Set(rows.map((row) => row[field]).filter((v) => v !== null && v !== ""))];
    const areWords = values.some((value) => typeof value === "string");
    values.sort(areWords ? undefined : (a, b) => a - b);
    if (areWords || (!isResult && values.length <= 24)) {
      return { name, type: "point", domain: values, range, padding: 0.5 };
    }
    const [low, high] = [values[0], values[values.length - 1]];
    const type = field !== "occupancy" && low > 0 && high / low > decades ? "log" : "linear";
    return { name, type, domain: [low, high], range, zero: false, nice: true };
  }

  /** Return a signal that holds the two ends of a brush in pixels, or those of both directions. */
  function brush(name, marks, start, move) {
    const down = marks.map((mark) => ({ source: "view", type: "pointerdown", markname: mark }));
    const drag = down.map((event) => ({
      source: "window", type: "pointermove", consume: true,
      between: [event, { source: "window", type: "pointerup" }],
    }));
    return { name, value: null,
      on: [{ events: down, update: start }, { events: drag, update: move }] };
  }

  /** Return the Vega specification of Pareto front above parallel coordinates, with brushes. */
  function linked(rows, fields, results, front, width) {
    const step = width / Math.max(fields.length, 1);
    const across = (i) => Math.round((i + 0.5) * step);
    const places = fields.map((field, i) =>
      scaleOf(`s${i}`, field, rows, [TOP + LOW, TOP], results.includes(field)));
    const [x, y] = front;
    const points = rows.filter((row) => row[x] !== null && row[y] !== null);
    const devices = new Set(rows.map((row) => row.device)).size;
    const hue = devices > 1 && devices <= PALETTE.length ? "device" : "model";
    const hues = [...new Set(rows.map((row) => row[hue]))].sort();
    const tests = fields.map((field, i) =>
      `(!b${i} || abs(b${i}[1] - b${i}[0]) < ${SLACK} || ` +
      `(isValid(${of(field)}) && inrange(scale('s${i}', ${of(field)}), b${i})))`);
    tests.push(
      `(!bp || abs(bp[1] - bp[0]) < ${SLACK} || (isValid(${of(x)}) && isValid(${of(y)}) && ` +
      `inrange(scale('px', ${of(x)}), [bp[0], bp[1]]) && ` +
      `inrange(scale('py', ${of(y)}), [bp[2], bp[3]])))`);
    // What has no value on an axis passes below it.
    const line = fields.map((field, i) =>
      `'${i ? "L" : "M"}${across(i)},' + format(isValid(${of(field)}) ? ` +
      `scale('s${i}', ${of(field)}) : ${TOP + LOW + 18}, '.1f')`).join(" + ") || "''";
    const clear = { value: "transparent" };
    const band = { fill: { value: "#888" }, fillOpacity: { value: 0.25 }, stroke: { value: INK } };
    return {
      width, height: TOP + LOW + 24, padding: 5, autosize: "pad", background: null,
      signals: [
        brush("bp", ["plane", "dots"], "[x(), x(), y(), y()]",
          `[bp[0], clamp(x(), 0, ${width}), bp[2], clamp(y(), 0, ${HIGH})]`),
        ...fields.map((_, i) => brush(`b${i}`, [`axis${i}`], "[y(), y()]",
          `[b${i}[0], clamp(y(), ${TOP - 8}, ${TOP + LOW + 8})]`)),
      ],
      scales: [
        scaleOf("px", x, points, [0, width], true, 5),
        scaleOf("py", y, points, [HIGH, 0], true, 5),
        { name: "hue", type: "ordinal", domain: hues, range: PALETTE },
        ...places,
      ],
      data: [
        { name: "rows", values: rows, transform: [
          { type: "formula", as: "line", expr: line },
          { type: "formula", as: "inside", expr: tests.join(" && ") } ] },
        { name: "points", source: "rows", transform: [
          { type: "filter", expr: `isValid(${of(x)}) && isValid(${of(y)})` } ] },
        { name: "front", source: "points", transform: [
          { type: "filter", expr: y === "energy" ? "datum.shown_as !== 'sample'" : "false" },
          { type: "collect", sort: { field: [x] } } ] },
        { name: "inside", source: "rows", transform: [{ type: "filter", expr: "datum.inside" }] },
      ],
      axes: [
        { scale: "px", orient: "bottom", offset: HIGH - (TOP + LOW + 24), title: titled(x),
          format: "~s", grid: false, tickCount: 8 },
        { scale: "py", orient: "left", title: titled(y), format: "~s", tickCount: 6 },
        ...fields.map((field, i) => ({
          scale: `s${i}`, orient: "left", offset: -across(i), labelOverlap: true, labelLimit: 84,
          zindex: 1, // labels are legible above the lines
          ...(results.includes(field) ? { format: "~s", tickCount: 6 } : {}),
        })),
      ],
      legends: [{ fill: "hue", title: hue, orient: "right", symbolType: "circle" }],
      marks: [
        { type: "rect", name: "plane", encode: { enter: { x: { value: 0 }, y: { value: 0 },
          width: { value: width }, height: { value: HIGH }, fill: clear,
          cursor: { value: "crosshair" } } } },
        { type: "group", interactive: false,
          from: { facet: { name: "one", data: "front", groupby: ["device", "model"] } },
          marks: [{ type: "line", interactive: false, from: { data: "one" }, encode: { update: {
            x: { scale: "px", field: x }, y: { scale: "py", field: y },
            interpolate: { value: "step-after" }, strokeWidth: { value: 1.5 },
            stroke: { scale: "hue", field: hue }, strokeOpacity: { value: 0.6 } } } }] },
        { type: "symbol", name: "dots", from: { data: "points" }, encode: {
          enter: { x: { scale: "px", field: x }, y: { scale: "py", field: y },
            shape: { signal: "datum.shown_as === 'best' ? 'diamond' : 'circle'" },
            size: { signal: "datum.shown_as === 'sample' ? 12 : datum.shown_as === 'best' ? 110 : 50" },
            fill: { scale: "hue", field: hue }, tooltip: { signal: tooltip(fields) } },
          update: { fillOpacity: { signal:
            "!datum.inside ? 0.05 : datum.shown_as === 'sample' ? 0.4 : 0.95" } } } },
        { type: "path", name: "lines", interactive: false, from: { data: "rows" }, encode: {
          enter: { path: { field: "line" }, stroke: { scale: "hue", field: hue }, fill: clear },
          update: {
            strokeWidth: { signal: "datum.shown_as === 'sample' ? 0.6 : 1.5" },
            strokeOpacity: { signal:
              "!datum.inside ? 0.02 : datum.shown_as === 'sample' ? 0.25 : 0.8" } } } },
        ...fields.flatMap((field, i) => [
          { type: "text", interactive: false, encode: { enter: { x: { value: across(i) },
            y: { value: TOP - 12 - 13 * (i % 2) }, align: { value: "center" }, fill: { value: INK },
            text: { value: titled(field) }, fontWeight: { value: "bold" } } } },
          { type: "rect", name: `axis${i}`, encode: { enter: { x: { value: across(i) - 14 },
            width: { value: 28 }, y: { value: TOP - 8 }, height: { value: LOW + 16 }, fill: clear,
            cursor: { value: "ns-resize" } } } },
          { type: "rect", interactive: false, encode: { enter: { ...band,
            x: { value: across(i) - 8 }, width: { value: 16 } }, update: {
            y: { signal: `b${i} ? b${i}[0] : 0` }, y2: { signal: `b${i} ? b${i}[1] : 0` },
            opacity: { signal: `b${i} && abs(b${i}[1] - b${i}[0]) >= ${SLACK} ? 1 : 0` } } } },
        ]),
        { type: "rect", interactive: false, encode: { enter: band, update: {
          x: { signal: "bp ? bp[0] : 0" }, x2: { signal: "bp ? bp[1] : 0" },
          y: { signal: "bp ? bp[2] : 0" }, y2: { signal: "bp ? bp[3] : 0" },
          opacity: { signal: `bp && abs(bp[1] - bp[0]) >= ${SLACK} ? 1 : 0` } } } },
      ],
    };
  }

  function titled(name) {
    const unit = data.units[name];
    return unit && unit !== "1" ? `${name} [${unit}]` : name;
  }

  function tooltip(fields) {
    const names = ["shown_as", "device", "model", ...fields, "regime"];
    const parts = [...new Set(names)].map((name) => `${JSON.stringify(name)}: ${of(name)}`);
    return `{${parts.join(", ")}}`;
  }

  async function drawLinked(all, kernel) {
    const { axes, results } = data.linked;
    const rows = all.filter((row) => row.kernel === kernel);
    const distinct = (name) => new Set(rows.map((row) => row[name])).size;
    const fields = axes.filter((name) => distinct(name) > 1);
    const vertical = document.getElementById("vertical");
    const known = (name) => rows.some((row) => row[name] !== null && row[name] !== undefined);
    const names = [...vertical.options].map((option) => option.value);
    if (!known(vertical.value)) vertical.value = names.find(known);
    const front = ["execution_time", vertical.value];
    const width = Math.max(520, document.getElementById("linked").clientWidth - 230);
    brushes = ["bp", ...fields.map((_, i) => `b${i}`)];
    const spec = linked(rows, fields, results, front, width);
    if (views.linked) views.linked.finalize();
    const { view } = await vegaEmbed("#linked", spec, { ...options, mode: "vega" });
    views.linked = view;
    const say = () => {
      const inside = view.data("inside");
      document.getElementById("count").textContent =
        `${inside.length} of ${rows.length} configurations shown are inside all brushes`;
    };
    view.addDataListener("inside", say);
    say();
    return view;
  }

  async function startLinked() {
    const text = data.tables.points;
    const lines = text.trimEnd().split("\n");
    const numbers = new Set(data.linked.numbers);
    const names = cellsOf(lines[0]);
    const all = lines.slice(1).map((line, i) => {
      const row = { place: i + 1 };
      cellsOf(line).forEach((cell, j) => {
        row[names[j]] = cell === "" ? null : numbers.has(names[j]) ? Number(cell) : cell;
      });
      return row;
    });
    const chooser = document.getElementById("kernel");
    for (const one of [chooser, document.getElementById("vertical")]) {
      one.addEventListener("change", () => drawLinked(all, chooser.value));
    }
    document.getElementById("clear").addEventListener("click", () => {
      brushes.forEach((name) => views.linked.signal(name, null));
      views.linked.runAsync();
    });
    document.getElementById("inside").addEventListener("click", () => {
      const inside = views.linked.data("inside").map((row) => lines[row.place]);
      save("inside.csv", [lines[0], ...inside, ""].join("\n"));
    });
    await drawLinked(all, chooser.value);
  }

  async function start() {
    if (data.linked) await startLinked();
    for (const [id, spec] of Object.entries(data.charts)) {
      views[id] = (await vegaEmbed(`#${id}`, spec, { ...options, mode: "vega-lite" })).view;
      await new Promise((done) => setTimeout(done)); // the page scrolls and brushes meanwhile
    }
  }

  window.sweepReport = { data, views, ready: new Promise((shown) => setTimeout(shown)).then(start) };
})();
