// The chart of the usage page: one stacked area a series, drawn again when the page shows itself anew.
"use strict";
(() => {
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  let plot = null;
  let drawn = "";

  const stacked = (series) => {
    const sums = new Array(series[0].length).fill(0);
    return series.map((values) => values.map((value, place) => (sums[place] += value)));
  };

  const draw = () => {
    const box = document.getElementById("chart");
    if (!box) return;
    const theme = style("--is-dark");
    if (drawn === box.dataset.chart + theme && plot) return;
    drawn = box.dataset.chart + theme;
    const { from, step, series } = JSON.parse(box.dataset.chart);
    // One more point, so that the last step is as wide as the others.
    const times = [...series[0][1], 0].map((_, place) => from / 1000 + place * step);
    const tops = stacked(series.map(([, values]) => [...values, values.at(-1)])).reverse();
    const names = series.map(([name]) => name).reverse();
    const own = series.map(([, values]) => [...values, values.at(-1)]).reverse();
    const told = (seconds) => new Date(seconds * 1000).toISOString();
    const marks = (_, splits, __, ___, apart) => splits.map((at) => (apart < 86400 && at % 86400 ? told(at).slice(11, 16) : told(at).slice(5, 10)));
    plot?.destroy();
    const ink = style("--soft");
    const axis = { stroke: ink, grid: { stroke: style("--line"), width: 1 }, ticks: { stroke: style("--line") } };
    plot = new uPlot(
      {
        width: box.clientWidth - 40,
        height: 280,
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
        axes: [{ ...axis, values: marks }, { ...axis, size: 60, label: "GPU-hours a step", labelSize: 18, stroke: ink }],
        scales: { y: { range: (_, low, high) => [0, Math.max(high, 0.001) * 1.05] } },
        legend: { live: true },
        series: [
          { value: (_, at) => (at === null ? "" : `${told(at).slice(0, 16)}Z`) },
          ...names.map((name, place) => ({
            label: name,
            stroke: style(`--series-${(names.length - 1 - place) % 8}`),
            fill: style(`--series-${(names.length - 1 - place) % 8}`),
            width: 1,
            points: { show: false },
            paths: uPlot.paths.stepped({ align: 1 }),
            value: (_, __, ___, at) => (at === null ? "" : own[place][at].toFixed(2)),
          })),
        ],
      },
      [times, ...tops],
      document.querySelector("[data-plot]"),
    );
  };
  document.addEventListener("shown", draw);
  document.addEventListener("theme", draw);
  addEventListener("resize", () => { drawn = ""; draw(); });
  draw();
})();
