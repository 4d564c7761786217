/**
 * The gaps of the protocol: the places between two lines of runStep where a process may die. A test's hook is called in
 * each of them and may end the process there.
 */
import type { ClaimAnswer, Delivery } from '../ports.js';

export const gaps = ['before_claim', 'after_claim', 'after_call', 'after_record', 'after_dispatch'] as const;
export type Gap = (typeof gaps)[number];

export type Claimed = Extract<ClaimAnswer, { claimed: true }>;

/** `claim`: null before there is one. */
export type OnGap = (gap: Gap, delivery: Delivery, claim: Claimed | null) => void | Promise<void>;
