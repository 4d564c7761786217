/** The summary for people: tables of aligned columns, and in plain words where Pawl is slower than a peer. */
import type { Parts } from './measures/parts.js';
import { percent } from './play.js';
import type { PeerResult, Summary } from './results.js';

export function asTable(summary: Summary): string {
  const { results } = summary;
  const parts = [machineLine(summary)];
  if (Object.keys(results.peers).length > 0)
    parts.push(columns(peerRows(results.peers)), slower(results.peers).join('\n'));
  if (Object.keys(results.growth).length > 0) parts.push(columns(growthRows(summary)));
  if (results.parts !== null) parts.push(columns(partsRows(results.parts)));
  parts.push(columns(goalRows(summary)));
  for (const [name, reason] of Object.entries(results.notMeasured)) parts.push(`not measured: ${name}: ${reason}`);
  return parts.filter((part) => part !== '').join('\n\n');
}

export function machineLine({ machine, settings }: Summary): string {
  const { cores, cpu, memoryMb, os, node, postgres, redis, commit, at } = machine;
  return (
    `${cores} cores of ${cpu}, ${memoryMb} MB, ${os}, Node ${node}, Postgres ${postgres}, Redis ${redis}; ` +
    `commit ${commit}, ${at}${settings.quick ? ', quick' : ''}`
  );
}

export function peerRows(peers: Record<string, PeerResult>): string[][] {
  const ordered = Object.values(peers).sort((a, b) => b.stepsPerSecond - a.stepsPerSecond);
  return [
    ['system', 'steps/s', 'least-most', 'a step alone, p50', 'stored a run', 'others'],
    ...ordered.map((peer) => [
      peer.title,
      whole(peer.stepsPerSecond),
      `${whole(peer.spread[0])}-${whole(peer.spread[1])}`,
      `${peer.aloneMs.toFixed(2)} ms`,
      peer.bytesPerRun === null ? '-' : `${(peer.bytesPerRun / 1_000).toFixed(1)} KB`,
      percent(peer.others),
    ]),
  ];
}

/** What is slower than a peer is said as such. */
export function slower(peers: Record<string, PeerResult>): string[] {
  const { pawl, 'pawl-postgres': postgres, ...others } = peers;
  const lines: string[] = [];
  for (const ours of [pawl, postgres]) {
    if (ours === undefined) continue;
    for (const peer of Object.values(others)) {
      if (ours.stepsPerSecond < peer.stepsPerSecond) {
        lines.push(
          `slower: ${ours.title} does ${(ours.stepsPerSecond / peer.stepsPerSecond).toFixed(2)} of the steps/s of ${peer.title}`,
        );
      }
      if (ours.aloneMs > peer.aloneMs) {
        lines.push(
          `slower: a step alone takes ${ours.title} ${(ours.aloneMs / peer.aloneMs).toFixed(2)} times as long as ${peer.title}`,
        );
      }
    }
  }
  return lines;
}

export function growthRows({ results }: Summary): string[][] {
  const names = Object.keys(results.growth);
  const steps = [...new Set(names.flatMap((name) => results.growth[name]?.points.map(({ step }) => step) ?? []))];
  return [
    ['ms a step at step', ...steps.sort((a, b) => a - b).map(String)],
    ...names.map((name) => [
      results.peers[name]?.title ?? name,
      ...steps.map((step) => results.growth[name]?.points.find((point) => point.step === step)?.ms.toFixed(2) ?? '-'),
    ]),
  ];
}

/** What a step costs in each part of a deployment. */
export function partsRows(parts: Parts): string[][] {
  return [
    ['of a step', ''],
    [
      'processor time of the worker process',
      `${whole(parts.workerUs)} µs; in its first two thousand steps ${whole(parts.coldWorkerUs)} µs`,
    ],
    ['processor time of Redis', `${whole(parts.redisUs)} µs in ${parts.redisCommands.toFixed(1)} commands`],
    ['processor time of Postgres', `${whole(parts.postgresUs)} µs in ${parts.commits.toFixed(2)} transactions`],
    ["Postgres's log", `${whole(parts.walBytes)} bytes`],
    ['rows inserted, updated', `${parts.inserted.toFixed(2)}, ${parts.updated.toFixed(2)}`],
    ['row versions left for vacuum', parts.dead.toFixed(2)],
    ['connections of a worker and a client to Postgres', whole(parts.connections)],
  ];
}

export function goalRows({ goals }: Summary): string[][] {
  return [
    ['ratio', 'what', 'measured', 'goal', ''],
    ...goals.map(({ ratio, what, value, goal, met }) => [
      ratio,
      what,
      value === null ? 'not measured' : shown(value),
      goal,
      met === null ? '' : met ? 'met' : 'NOT met',
    ]),
  ];
}

function shown(value: number): string {
  return value >= 100 ? whole(value) : value.toFixed(2);
}

function whole(value: number): string {
  return Math.round(value).toLocaleString('en');
}

function columns(rows: string[][]): string {
  const widths = (rows[0] ?? []).map((_, n) => Math.max(...rows.map((row) => row[n]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, n) => cell.padEnd(widths[n] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
