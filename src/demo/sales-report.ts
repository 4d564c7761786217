/** The report the scripted analyst writes: every number in it comes from a query's answer or is their sum. Pure. */

interface Day {
  day: string;
  sales: number;
  rows: number;
}

interface Group {
  name: string;
  thisWeek: number;
  weekBefore: number;
}

export interface Findings {
  table: string;
  days: Day[];
  /** Name of the column that groups are by, and the groups; empty when there are none. */
  groupedBy: string | null;
  groups: Group[];
}

export interface Summary {
  from: string;
  to: string;
  total: number;
  best: Day;
  advice: string[];
}

export const money = (value: number) =>
  value.toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const percent = (share: number) => `${Math.abs(share * 100).toFixed(1)} %`;
export const weekdayOf = (day: string) =>
  new Date(`${day}T00:00:00Z`).toLocaleDateString('en-US', { weekday: 'long', timeZone: 'UTC' });

export function summarise({ days, groupedBy, groups }: Findings): Summary {
  const [first] = days;
  if (first === undefined) throw new Error('There are no days to report on.');
  const total = days.reduce((sum, { sales }) => sum + sales, 0);
  const best = days.reduce((found, day) => (day.sales > found.sales ? day : found), first);
  const worst = days.reduce((found, day) => (day.sales < found.sales ? day : found), first);
  const advice: string[] = [];
  const mean = total / days.length;
  if (mean > 0 && best.sales > worst.sales) {
    advice.push(
      `${weekdayOf(best.day)} sold ${percent(best.sales / mean - 1)} more than an average day: have stock and people ready for it.`,
      `${weekdayOf(worst.day)} was the weakest day, with ${money(worst.sales)}: try an offer that moves orders there.`,
    );
  }
  advice.push(...adviseOn(groups, groupedBy, total));
  if (advice.length === 0) advice.push('The days differ too little to act on: look again in a week.');
  return { from: first.day, to: days.at(-1)?.day ?? first.day, total, best, advice };
}

function adviseOn(groups: Group[], groupedBy: string | null, total: number): string[] {
  const [top] = groups;
  if (top === undefined || groupedBy === null || total <= 0) return [];
  const advice = [
    `${top.name} brings ${percent(top.thisWeek / total)} of sales (by ${groupedBy}): keep it in stock first.`,
  ];
  const moved = groups.filter(({ weekBefore }) => weekBefore > 0);
  const change = ({ thisWeek, weekBefore }: Group) => thisWeek - weekBefore;
  const fallen = moved.reduce<Group | null>(
    (found, g) => (found === null || change(g) < change(found) ? g : found),
    null,
  );
  const risen = moved.reduce<Group | null>(
    (found, g) => (found === null || change(g) > change(found) ? g : found),
    null,
  );
  if (fallen && change(fallen) < 0) {
    advice.push(
      `${fallen.name} fell ${percent(change(fallen) / fallen.weekBefore)} against the 7 days before ` +
        `(${money(fallen.weekBefore)} to ${money(fallen.thisWeek)}): find out why.`,
    );
  }
  if (risen && change(risen) > 0) {
    advice.push(
      `${risen.name} rose ${percent(change(risen) / risen.weekBefore)} against the 7 days before ` +
        `(${money(risen.weekBefore)} to ${money(risen.thisWeek)}): put it forward while it lasts.`,
    );
  }
  return advice;
}

export function writeReport(findings: Findings, summary: Summary): string {
  const { from, to, total, best, advice } = summary;
  const rows = findings.days.map(
    ({ day, sales, rows }) => `| ${day} | ${weekdayOf(day)} | ${money(sales)} | ${rows} |`,
  );
  const count = findings.days.reduce((sum, day) => sum + day.rows, 0);
  return `# Sales of the last 7 days

${from} to ${to}, both included, from the table "${findings.table}".

| Day | Weekday | Sales | Rows |
|---|---|---:|---:|
${rows.join('\n')}
| **Total** | | **${money(total)}** | **${count}** |

**Best day: ${weekdayOf(best.day)}, ${best.day}, with ${money(best.sales)}** (${percent(total > 0 ? best.sales / total : 0)} of the week).

## What to do next

${advice.map((line) => `- ${line}`).join('\n')}
`;
}
