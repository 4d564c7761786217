/**
 * Makes a provider's words fit to be stored and shown: no key, no bearer token, no endless page. Providers quote the key
 * they refuse, proxies quote whole requests, so every failure message passes here before it leaves this folder.
 */
import { wellFormed } from './json.js';

/** Characters of a failure message that are kept. */
export const messageCap = 500;

const mask = '[redacted]';

const patterns: [RegExp, string][] = [
  [/\b(Bearer|Basic)\s+[^\s"',;]+/gi, `$1 ${mask}`],
  // sk-…, sk-proj-…, gsk_…, xai-…, AIza…, also half masked by the provider itself (sk-ab***yz)
  [/\b(?:sk|pk|rk|gsk|xai|nvapi|hf|pplx)[-_][\w*.-]{4,}/gi, mask],
  [/\bAIza[\w-]{10,}/g, mask],
  [/\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?/g, mask],
  [/(api[-_ ]?key(?:[-_ ]?provided)?["']?\s*[:=]\s*["']?)[^\s"',;]+/gi, `$1${mask}`],
  [/(\/\/)[^\s/@:]+:[^\s/@]+@/g, `$1${mask}@`],
];

/**
 * The text without the given secrets and without anything that looks like one, on one line, cut to `messageCap`
 * characters. Redacts before it cuts: half a key at the edge would match nothing.
 */
export function redact(text: string, secrets: readonly string[]): string {
  let clean = text;
  for (const secret of secrets) if (secret.length >= 4) clean = clean.replaceAll(secret, mask);
  // A page of megabytes is not searched to its end; the word at the cut goes too, it may be half a token.
  if (clean.length > messageCap * 20) clean = clean.slice(0, messageCap * 20).replace(/\S*$/, '');
  for (const [pattern, replacement] of patterns) clean = clean.replace(pattern, replacement);
  clean = clean.replace(/[\s\p{Cc}]+/gu, ' ').trim();
  return wellFormed(clean.length > messageCap ? `${clean.slice(0, messageCap - 1)}…` : clean).replace(/\uFFFD…$/, '…');
}
