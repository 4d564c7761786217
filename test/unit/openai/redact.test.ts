/** No secret survives in what a failure says, and no page either. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { messageCap, redact } from '../../../src/openai/redact.js';

describe('A failure message', () => {
  it.each([
    'Incorrect API key provided: sk-proj-abc123DEF456. You can find it here.',
    'Incorrect API key provided: sk-ab***********yz9.',
    'request had Authorization: Bearer abc.def-ghi_jkl',
    'header "authorization": "Basic dXNlcjpwYXNz"',
    'x-api-key=0123456789abcdef is not known',
    'api_key: "0123456789abcdef"',
    'connect to http://user:hunter22@proxy.local:8080 failed',
    'token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl expired',
    'gsk_abcdefghijkl was refused',
    'AIzaSyA1234567890abcdef was refused',
  ])('hides the secret in %j', (text) => {
    const clean = redact(text, []);
    expect(clean).toContain('[redacted]');
    expect(clean).not.toMatch(/abc123|yz9|def-ghi|dXNlc|0123456789|hunter22|eyJ|abcdefghijkl|AIzaSy/);
  });

  it('leaves other words alone', () => {
    const text = "Invalid 'messages[3].content': the risk-free task_id is missing an API key field.";
    expect(redact(text, [])).toBe(text);
  });

  it('holds no configured key, wherever the text is cut, in one line of bounded length', () => {
    const key = 'QZ-odd.key+form/42';
    fc.assert(
      fc.property(fc.string({ maxLength: 700 }), fc.string({ maxLength: 700 }), (before, after) => {
        const clean = redact(before + key + after, [key]);
        return (
          !clean.includes(key.slice(0, 8)) &&
          clean.length <= messageCap &&
          !/[\n\r]/.test(clean) &&
          !/\p{Surrogate}/u.test(clean)
        );
      }),
    );
  });
});
