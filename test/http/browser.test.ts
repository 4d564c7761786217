/**
 * The queue dashboard in a real browser: an operator finds the failed job, presses Retry, and follows the link to its run.
 * Needs a Chromium of the system (PAWL_TEST_CHROMIUM, or one on PATH). `PAWL_TEST_SCREENSHOT=docs/queues.png` takes the
 * picture for the README.
 */
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { chromium } from 'playwright-core';
import { afterEach, expect, it } from 'vitest';
import { defineAgent } from '../../src/core/agent.js';
import { scriptedLlm } from '../../src/testing/index.js';
import { until } from '../chaos/until.js';
import { type BoardWorld, openBoardWorld } from './board-world.js';

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
const browserPath = process.env.PAWL_TEST_CHROMIUM ?? findOnPath();
if (browserPath === undefined)
  console.warn('no Chromium found (apt install chromium): the dashboard is not tried in a browser');

function findOnPath(): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter);
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find((path) => existsSync(path));
}

let world: BoardWorld | null = null;
afterEach(() => world?.close());

it.runIf(browserPath !== undefined)(
  'an operator retries a dead letter and looks at its run',
  { timeout: 90_000 },
  async () => {
    const opened = await openBoardWorld('postgres');
    world = opened;
    let isBroken = true;
    const llm = scriptedLlm(() => (isBroken ? { fault: 'status', status: 400, message: 'model is gone' } : 'Fine.'));
    await opened.startWorkerOf(llm, defineAgent({ name: 'analyst', instructions: 'Sum the sales.' }));
    const { runs } = opened.client;
    const started = await runs.startMany(
      ['Sum the sales of May', 'Sum the sales of June', 'Sum the sales of July'].map((input) => ({
        agent: 'analyst',
        input,
      })),
    );
    await until('all in the failed set', 30_000, async () => (await opened.jobs('failed')).length === started.length);
    isBroken = false;

    const browser = await chromium.launch({ executablePath: browserPath ?? '', args: ['--no-sandbox'] });
    try {
      const page = await browser.newPage({ viewport: { width: 1_200, height: 720 } });
      const faults: string[] = [];
      page.on('pageerror', (error) => faults.push(error.message));
      await page.goto(`${opened.url}/queues/queue/pawl-llm?status=failed`);
      const link = page.locator('a[href^="/v1/runs/run_"]').first();
      await link.waitFor();
      const runId = (await link.getAttribute('href'))?.split('/').at(-1) ?? '';
      if (process.env.PAWL_TEST_SCREENSHOT) await page.screenshot({ path: process.env.PAWL_TEST_SCREENSHOT });
      // The row of the job begins with its Retry, an icon without a name; then the page asks whether it is meant.
      await link.locator('xpath=ancestor::*[.//button][1]').getByRole('button').first().click();
      await page.getByRole('button', { name: 'Confirm' }).click();
      await until('the run to be completed', 30_000, async () => (await runs.get(runId)).status === 'completed');
      await page.goto(`${opened.url}/v1/runs/${runId}`);
      expect(await page.textContent('body')).toContain('"output":"Fine."');
      expect(faults).toEqual([]);
    } finally {
      await browser.close();
    }
  },
);
