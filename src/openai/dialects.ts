/**
 * Dialects: where OpenAI-compatible models differ in what a request may hold. A model begins with what its configuration
 * or its name says, and one complaint of the provider about a parameter changes that parameter once, for the life of the
 * process. The refused request cost nothing, so the changed one is sent within the same call (see llm.ts).
 */
import type { Fault } from './classify.js';

export interface Dialect {
  /** The parameter that bounds the reply. */
  maxTokensField: 'max_tokens' | 'max_completion_tokens';
  /** Whether the model takes a temperature. */
  temperature: boolean;
  /** `json_schema`: the output schema goes into `response_format`; `words`: to the end of the system message. */
  outputSchema: 'json_schema' | 'words';
  /** Whether assistant messages bring their `reasoning_content` back. Some models insist on it, others refuse it. */
  echoReasoning: boolean;
}

/** OpenAI's reasoning models take neither `max_tokens` nor a temperature. */
const reasoningModels = /^(?:openai\/)?(?:o\d|gpt-5(?!.*chat))/;

export function dialectOf(model: string, configured: Partial<Dialect> = {}): Dialect {
  const reasoning = reasoningModels.test(model);
  return {
    maxTokensField: reasoning ? 'max_completion_tokens' : 'max_tokens',
    temperature: !reasoning,
    outputSchema: 'json_schema',
    echoReasoning: false,
    ...configured,
  };
}

const unsupported =
  /unsupported|not support|unavailable|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed|extra (?:fields|inputs)|only the default|instead|invalid (?:input|type|schema)|no longer/i;

/** Whether the complaint names the parameter: by `param`, else in its text. */
function names(fault: Fault, parameter: string): boolean {
  if (fault.param !== null) return fault.param === parameter || fault.param.startsWith(`${parameter}.`);
  return new RegExp(`\\b${parameter}\\b`, 'i').test(fault.message);
}

/**
 * The dialect the provider's complaint asks for, with the field that changes; null when it complains of something else.
 * `sent` is the request body that was refused; `changed` holds the fields changed before, none of which changes again.
 */
export function adapt(
  dialect: Dialect,
  fault: Fault,
  sent: Readonly<Record<string, unknown>>,
  changed: ReadonlySet<keyof Dialect>,
): { dialect: Dialect; field: keyof Dialect } | null {
  if (fault.status !== 400 && fault.status !== 422) return null;
  const to = <F extends keyof Dialect>(field: F, value: Dialect[F]) =>
    changed.has(field) || dialect[field] === value ? null : { dialect: { ...dialect, [field]: value }, field };

  // Names of the field alone do not decide here: "must be passed back" and "is not allowed" ask for opposite things.
  if (/reasoning_content/i.test(fault.message)) {
    return to('echoReasoning', /missing|must be|required|passed back/i.test(fault.message));
  }
  if (!unsupported.test(fault.message) && !/^unsupported_/.test(fault.code ?? '')) return null;
  const bound = dialect.maxTokensField;
  if (bound in sent && names(fault, bound)) {
    return to('maxTokensField', bound === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens');
  }
  if ('temperature' in sent && names(fault, 'temperature')) return to('temperature', false);
  if ('response_format' in sent && (names(fault, 'response_format') || /json_schema/i.test(fault.message))) {
    return to('outputSchema', 'words');
  }
  return null;
}
