/** The installed versions of packages of the bench. */
import { readFileSync } from 'node:fs';

export function versionsOf(packages: readonly string[]): string {
  const named = packages.map((name) => {
    const file = new URL(`../node_modules/${name}/package.json`, import.meta.url);
    return `${name} ${(JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version}`;
  });
  return named.length === 0 ? 'this repository' : named.join(', ');
}
