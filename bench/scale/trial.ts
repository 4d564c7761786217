/** What a trial of a deployment gets. It says what it found, and throws what does not work. */
import type { Services } from '../measures/task.js';
import type { Session } from '../peer.js';
import type { Work } from '../work.js';

export type Say = (what: string) => void;

export interface Stage extends Services {
  /** Plays runs and checks them; answers the steps a second. */
  play(open: (work: Work) => Promise<Session>): Promise<number>;
  say: Say;
}

export type Trial = (stage: Stage) => Promise<void>;
