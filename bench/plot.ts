/** Draws the cost of a step against the length of its run, both on logarithmic axes, as an SVG of its own. */
import type { Summary } from './results.js';

const size = { width: 760, height: 420, left: 64, right: 150, top: 44, bottom: 52 };
const colours = ['#2563eb', '#d97706', '#dc2626', '#059669'];

export function plotGrowth({ results, machine }: Summary): string {
  const names = Object.keys(results.growth);
  const points = names.flatMap((name) => results.growth[name]?.points ?? []);
  const x = axis(
    points.map(({ step }) => step),
    size.left,
    size.width - size.right,
  );
  const y = axis(
    points.map(({ ms }) => ms),
    size.height - size.bottom,
    size.top,
  );
  const lines = names.map((name, n) => {
    const curve = results.growth[name]?.points ?? [];
    const colour = colours[n % colours.length] ?? '#000';
    const path = curve.map(({ step, ms }) => `${x.at(step)},${y.at(ms)}`).join(' ');
    const last = curve.at(-1);
    const label =
      last === undefined
        ? ''
        : text(x.at(last.step) + 8, y.at(last.ms) + 4, results.peers[name]?.title ?? name, 'start', colour);
    const dots = curve
      .map(({ step, ms }) => `<circle cx="${x.at(step)}" cy="${y.at(ms)}" r="3" fill="${colour}"/>`)
      .join('');
    return `<polyline points="${path}" fill="none" stroke="${colour}" stroke-width="2"/>${dots}${label}`;
  });
  const grid = [
    ...x.ticks.map(
      (tick) =>
        `<line x1="${x.at(tick)}" x2="${x.at(tick)}" y1="${size.top}" y2="${size.height - size.bottom}" stroke="#e5e7eb"/>${text(x.at(tick), size.height - size.bottom + 18, tick.toLocaleString('en'))}`,
    ),
    ...y.ticks.map(
      (tick) =>
        `<line x1="${size.left}" x2="${size.width - size.right}" y1="${y.at(tick)}" y2="${y.at(tick)}" stroke="#e5e7eb"/>${text(size.left - 8, y.at(tick) + 4, `${tick}`, 'end')}`,
    ),
  ];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size.width} ${size.height}" font-family="system-ui, sans-serif" font-size="12">`,
    '<title>Milliseconds a step takes, by the number of steps its run has made</title>',
    `<rect width="${size.width}" height="${size.height}" fill="#fff"/>`,
    text(size.left, 22, 'Milliseconds a step takes, by the number of steps its run has made', 'start', '#111', 14),
    ...grid,
    ...lines,
    text((size.left + size.width - size.right) / 2, size.height - 14, `steps made (commit ${machine.commit})`),
    '</svg>\n',
  ].join('\n');
}

/** A logarithmic axis over the values, with the ticks 1, 2 and 5 of each decade. */
function axis(values: number[], from: number, to: number) {
  const [least, most] = [Math.min(...values) * 0.8, Math.max(...values) * 1.15];
  const at = (value: number) => {
    const share = Math.log(value / least) / Math.log(most / least);
    return Math.round((from + share * (to - from)) * 10) / 10;
  };
  const decades = Array.from({ length: 9 }, (_, n) => 10 ** (n - 3));
  const ticks = decades.flatMap((decade) => [1, 2, 5].map((digit) => Number((digit * decade).toPrecision(1))));
  return { at, ticks: ticks.filter((tick) => tick >= least && tick <= most) };
}

function text(x: number, y: number, words: string, anchor = 'middle', fill = '#374151', fontSize = 12): string {
  const safe = words.replace(/&/g, '&amp;').replace(/</g, '&lt;');
  return `<text x="${x}" y="${y}" text-anchor="${anchor}" fill="${fill}" font-size="${fontSize}">${safe}</text>`;
}
