/**
 * Keeps secrets out of whatever people read (I12): values that are known to be secret, values that look like keys or stand
 * in a URL as a password, and fields whose names say what they hold. Used by the log and by messages about settings.
 */

export const mask = '[redacted]';

const secretNames =
  /^(?:.*[-_.])?(?:api[-_]?key|access[-_]?key|private[-_]?key|authorization|password|passwd|pwd|secret|token|cookie|set-cookie|credentials?)$/i;

/** `apiKey`, `OPENAI_API_KEY`, `x-auth-token`, but not `tokens` or `idempotencyKey`. */
export function isSecretName(name: string): boolean {
  return secretNames.test(name.replace(/([a-z])([A-Z])/g, '$1-$2'));
}

const patterns: [RegExp, string][] = [
  // With a digit, a capital or a = in it, which a word after "basic" has not.
  [/\b([Bb]earer|[Bb]asic)\s+(?=[\w.~+/=-]*[A-Z0-9=])[\w.~+/=-]{6,}/g, `$1 ${mask}`],
  [/\b(?:sk|pk|rk|gsk|xai|nvapi|hf|pplx|ghp|gho|xox[abp])[-_][\w.-]{8,}/g, mask],
  [/\bAIza[\w-]{20,}/g, mask],
  [/\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?/g, mask],
  [/(\w:\/\/[^\s/:@"'\\]*):[^\s/@"'\\]+@/g, `$1:${mask}@`],
];

/** The text without the given secrets, and without anything that looks like one. */
export function maskSecrets(text: string, secrets: readonly string[] = []): string {
  let masked = text;
  // Short ones would take words with them.
  for (const secret of secrets) if (secret.length >= 6) masked = masked.replaceAll(secret, mask);
  for (const [pattern, replacement] of patterns) masked = masked.replace(pattern, replacement);
  return masked;
}
