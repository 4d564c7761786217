/**
 * The checker as a pure function: a campaign's evidence in, a report out. Each invariant is judged in a file of its own;
 * I9 waits for schedules, and I13 is measured by the benchmarks.
 */
import type { Evidence, Report } from '../evidence.js';
import { checkAttempts } from './attempts.js';
import { checkCancels } from './cancels.js';
import { checkClaims, checkSwallowed, checkTokens } from './claims.js';
import { countWhatHappened, missingFrom } from './counts.js';
import { type Breach, dossiersOf } from './dossier.js';
import { checkEnd } from './ends.js';
import { checkFacts } from './facts.js';
import { checkKeptResults } from './kept-results.js';
import { checkForeignKeys, checkKeys } from './keys.js';
import { checkOutputs, checkSummaries } from './long-runs.js';
import { checkSettled, checkSettledAsAWhole, checkStanding, checkStarts } from './lost.js';
import { checkModels } from './models.js';
import { checkModes } from './modes.js';
import { checkOnce } from './once.js';
import { checkOutput } from './outputs.js';
import { checkProcesses } from './processes.js';
import { checkHistory, checkRequests } from './requests.js';
import { checkSeqs } from './seqs.js';
import { checkStillness } from './stillness.js';
import { checkTakeovers } from './takeovers.js';
import { checkThreads } from './threads.js';
import { checkUsage } from './usage.js';
import { checkWithdrawals } from './withdrawals.js';

/** `secrets`: what secretsIn found in the texts that the evidence was read from. */
export function judge(evidence: Evidence, secrets: readonly Breach[] = []): Report {
  const dossiers = dossiersOf(evidence);
  const breaches = [
    ...checkStarts(evidence, dossiers),
    ...checkSettledAsAWhole(evidence),
    ...dossiers.flatMap((dossier) => [
      ...checkSettled(dossier, evidence),
      ...checkOutput(dossier),
      ...checkSeqs(dossier),
      ...checkEnd(dossier, evidence),
      ...checkStanding(dossier),
      ...checkClaims(dossier),
      ...checkKeys(dossier),
      ...checkOnce(dossier),
      ...checkHistory(dossier),
      ...checkUsage(dossier),
      ...checkAttempts(dossier),
      ...checkModels(dossier),
      ...checkSummaries(dossier),
      ...checkModes(dossier),
    ]),
    ...checkStillness(evidence, dossiers),
    ...checkThreads(evidence, dossiers),
    ...checkFacts(evidence, dossiers),
    ...checkOutputs(evidence, dossiers),
    ...checkKeptResults(evidence, dossiers),
    ...checkWithdrawals(evidence, dossiers),
    ...checkTokens(dossiers),
    ...checkSwallowed(evidence, dossiers),
    ...checkForeignKeys(evidence),
    ...checkRequests(evidence, dossiers),
    ...checkCancels(evidence, dossiers),
    ...checkTakeovers(evidence),
    ...checkProcesses(evidence, dossiers),
    ...secrets,
  ];
  const counts = countWhatHappened(evidence, dossiers);
  const missing = missingFrom(counts, evidence);
  const verdict = breaches.length > 0 ? 'failed' : missing.length > 0 ? 'inconclusive' : 'passed';
  return { verdict, breaches, counts, missing };
}
