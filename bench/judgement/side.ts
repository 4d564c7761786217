/**
 * What a side is to the bench of judgement: it plays a task with the same model, tools and instructions as the other, and
 * tells what it answered and which of its calls succeeded. One file a side in sides/, each as its own documentation writes it.
 */
import type { Warehouse } from './tools.js';

export interface Setting {
  /** Base URL of the model. */
  modelUrl: string;
  warehouse: Warehouse;
  /** A database and a Redis of its own, for a side that needs them. */
  databaseUrl: string;
  redisUrl: string;
}

export interface Played {
  /** The final answer; null: there is none. */
  answer: string | null;
  /** How it ended, in the side's own word. */
  ended: string;
  /** It ended because a limit of its turns or steps was reached, or because it was found to repeat itself. */
  endedAtLimit: boolean;
  /** Of each call that the model asked for, in order: whether a result of the tool came of it. */
  calls: boolean[];
  /** From the task's acceptance to its end. */
  ms: number;
}

export interface SideSession {
  play(task: string): Promise<Played>;
  close(): Promise<void>;
}

export interface Side {
  title: string;
  packages: readonly string[];
  /** How it is set up, in a few words. */
  how: string;
  open(setting: Setting): Promise<SideSession>;
}

export const modelName = 'gpt-4o-mini';
export const instructions =
  'You answer questions about the orders of a shop for office supplies. Take every figure from the tools. Answer in a few sentences, with the figures.';
