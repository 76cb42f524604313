// Calibration and score histograms of the selected model, and what settings did to all.
"use strict";

// What the calibration section says of the probabilities that a model's scores are.
function calibrationNote(data, model) {
  if (!model.raw) return "These scores say nothing but the order of the samples, so they claim no probabilities.";
  if (data.unit !== "logits") return `Probabilities as ${data.unit === "probability" ? "they are given" : "the log-odds have them"}.`;
  const biased = data.reduction === "weighted_mean" ? " Trained with the reduction weighted_mean, corrected log-odds of rare classes come out somewhat low." : "";
  return model.corrected
    ? `“As they are” reads the score as log-odds. “Corrected” undoes what the loss's omega, gamma and tau did to them and moves them to the test's share of positives.${biased}`
    : "Probabilities that read the score as log-odds. Only scores z1 - z0 are known of this model, and with gamma above 0, or a loss of another kind, they do not tell the corrected ones.";
}

function drawReliability(state) {
  const model = state.data.models[state.model];
  byId("calibration-note").textContent = calibrationNote(state.data, model);
  byId("reliability-chart").closest("figure").hidden = byId("reliability-details").hidden = !model.raw;
  if (!model.raw) return Promise.resolve();
  const kinds = [["raw", "scores as they are", themed("#D55E00"), "circle"], ["corrected", "corrected", themed("#0072B2"), "square"]];
  const traces = [{ x: [0, 1], y: [0, 1], mode: "lines", line: { color: cssColor("line") }, hoverinfo: "skip", showlegend: false }];
  const rows = [];
  for (const [kind, name, color, symbol] of kinds) {
    const bins = model[kind];
    if (!bins) continue;
    const shares = bins.k.map((k, i) => k / bins.n[i]);
    const intervals = bins.k.map((k, i) => rateInterval(k, bins.n[i]));
    traces.push({
      x: bins.p, y: shares, mode: "markers+lines", name: `${name}: Brier ${number(bins.brier)}`, marker: { color, symbol, size: 8 }, line: { color, width: 1 },
      error_y: { type: "data", symmetric: false, array: intervals.map(([, high], i) => high - shares[i]), arrayminus: intervals.map(([low], i) => shares[i] - low), width: 2, thickness: 1, color },
      customdata: bins.n, hovertemplate: `claimed %{x:.1%}, found %{y:.1%} of %{customdata}<extra>${name}</extra>`,
    });
    bins.p.forEach((p, i) => rows.push([name, rate(p), rate(shares[i]), limits(intervals[i]), bins.n[i], bins.k[i]]));
  }
  byId("reliability-table").replaceChildren(plainTable(["Probabilities", "mean claimed", "found", "95 % interval", "samples", "positives"], rows));
  const shape = { xaxis: axis("Probability claimed", { range: [-0.02, 1.02], tickformat: "~%" }), yaxis: axis("Share of positives", { range: [-0.02, 1.02], tickformat: "~%" }), showlegend: true };
  return draw("reliability-chart", traces, shape, "Reliability of probabilities");
}

function drawHistogram(state) {
  const model = state.data.models[state.model];
  const { low, high } = model.histogram;
  const kinds = [["negative", 0, themed("#0072B2"), model.negatives], ["positive", 1, themed("#D55E00"), model.positives]];
  const traces = kinds.map(([kind, place, color, total]) => {
    const counts = model.histogram[kind];
    const width = (high - low) / counts.length;
    return {
      type: "bar", name: literal(state.data.classes[place]), x: counts.map((_, i) => low + (i + 0.5) * width), y: counts.map((count) => count / total),
      width, marker: { color, opacity: 0.6 }, customdata: counts, hovertemplate: "score about %{x:.3g}: %{customdata} samples<extra>%{fullData.name}</extra>",
    };
  });
  const shape = { barmode: "overlay", xaxis: axis(state.data.scoreName), yaxis: axis("Share of the class", { tickformat: "~%" }), showlegend: true, shapes: thresholdLine(state) };
  return draw("histogram-chart", traces, shape, "Scores by class");
}

function thresholdLine(state) {
  const at = state.point && state.point.threshold;
  if (!Number.isFinite(at)) return [];
  return [{ type: "line", x0: at, x1: at, y0: 0, y1: 1, yref: "paper", line: { color: cssColor("text"), width: 1.5, dash: "dot" } }];
}

function markThreshold(state) {
  if (byId("histogram-chart")._fullLayout) Plotly.relayout("histogram-chart", { shapes: thresholdLine(state) });
}

function drawPanels(state) {
  const { data } = state;
  const method = Number(byId("settings-method").value);
  const own = data.panels.filter((panel) => panel.group === state.group && panel.method === method);
  const metric = byId("metric").value;
  const title = byId("metric").selectedOptions[0].textContent;
  const container = byId("panels");
  for (const old of container.querySelectorAll(".chart")) Plotly.purge(old);
  container.replaceChildren(...own.map((_, i) => element("figure", {}, element("div", { class: "chart", id: `panel-${i}` }))));
  const color = methodColor(method);
  own.forEach((panel, i) => {
    const fit = panel.fits[metric];
    const models = panel.models.map((index) => data.models[index]);
    // Dots of one value beside each other, so that none hides another.
    const span = new Set(panel.x).size < panel.x.length ? Math.max(...panel.x) - Math.min(...panel.x) : 0;
    const traces = [{
      x: panel.x.map((x, place) => x + span * 0.02 * (((place * 7) % 5) / 2 - 1)), y: models.map((model) => model[metric]), mode: "markers", marker: { color, size: 5, opacity: 0.5 },
      text: models.map((model) => literal(modelName(data, model))), customdata: models.map((model) => ({ model: model.index })), hovertemplate: "%{text}<br>%{y:.4f}<extra></extra>",
    }, { x: fit.x, y: fit.y, mode: "lines", line: { color: cssColor("text"), width: 2 }, hoverinfo: "skip" }];
    const r2 = fit.r2 === null ? "does not vary" : `R² ${fit.r2.toFixed(2)}`;
    draw(`panel-${i}`, traces, {
      xaxis: axis(literal(panel.axis)), yaxis: axis(title), title: { text: r2, font: { size: 13 }, x: 0.5, y: 0.98 }, margin: { l: 52, r: 8, t: 26, b: 40 },
    }, `${title} against ${panel.setting}`);
    byId(`panel-${i}`).on("plotly_click", state.onClick); // they are new each time
  });
  const rows = data.panels.filter((panel) => panel.group === state.group).flatMap((panel) => data.metrics.map(([key, name]) => {
    const fit = panel.fits[key];
    return [data.methods[panel.method], panel.setting, name, fit.r2 === null ? "–" : fit.r2.toFixed(3), fit.adjusted_r2 === null ? "–" : fit.adjusted_r2.toFixed(3)];
  }));
  byId("settings-table").replaceChildren(plainTable(["Method", "setting", "metric", "R² of the fit", "adjusted R²"], rows));
  const names = own.map((panel) => panel.setting);
  byId("heat-controls").hidden = byId("heat-figure").hidden = names.length < 2;
  options(byId("heat-x"), names.map((name) => [name, name]), names.includes(byId("heat-x").value) ? byId("heat-x").value : names[0]);
  options(byId("heat-y"), names.map((name) => [name, name]), names.includes(byId("heat-y").value) ? byId("heat-y").value : names[names.length - 1]);
  return drawHeat(state);
}

function drawHeat(state) {
  const { data } = state;
  const method = Number(byId("settings-method").value);
  const metric = byId("metric").value;
  const [across, up] = [byId("heat-x").value, byId("heat-y").value];
  const own = data.models.filter((model) => model.group === state.group && model.method === method);
  const values = (name) => [...new Set(own.map((model) => model.settings[name]))].sort(compared);
  const [xs, ys] = [values(across), values(up)];
  if (byId("heat-figure").hidden || across === up) return Promise.resolve();
  const z = ys.map((y) => xs.map((x) => {
    const some = own.filter((model) => model.settings[across] === x && model.settings[up] === y).map((model) => model[metric]);
    return some.length ? some.reduce((sum, value) => sum + value, 0) / some.length : null;
  }));
  const traces = [{
    type: "heatmap", x: xs.map((x) => literal(x)), y: ys.map((y) => literal(y)), z, colorscale: "Viridis", texttemplate: "%{z:.4f}", xgap: 2, ygap: 2,
    hovertemplate: `${literal(across)} %{x}, ${literal(up)} %{y}: %{z:.4f}<extra></extra>`, colorbar: { thickness: 12, outlinewidth: 0 },
  }];
  return draw("heat-chart", traces, { xaxis: axis(literal(across), { type: "category" }), yaxis: axis(literal(up), { type: "category" }) }, `Heat map over ${across} and ${up}`);
}

function options(select, pairs, chosen) {
  select.replaceChildren(...pairs.map(([value, text]) => element("option", { value }, text)));
  if (chosen !== undefined) select.value = chosen;
}
