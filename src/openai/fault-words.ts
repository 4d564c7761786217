/**
 * The codes and the phrases by which providers name one and the same trouble. Collected from public bug reports and from
 * providers' documentation; each phrase stands beside who says it. Used by classify.ts alone.
 */

export const quotaCodes = [
  'insufficient_quota',
  'billing_hard_limit_reached',
  'billing_not_active',
  'account_deactivated',
  'insufficient_balance',
  'insufficient_credits',
  'exceeded_current_quota_error', // Moonshot
  'arrearage', // Alibaba
  '1113', // Zhipu: account in arrears
];

export const rateCodes = [
  'rate_limit_exceeded',
  'rate_limit_error',
  'rate_limit_reached',
  'rate_limit_reached_error', // Moonshot
  'rate_limited',
  'too_many_requests',
  'resource_exhausted', // Gemini
  'throttling',
  'throttling.ratequota', // Alibaba
  'throttling.allocationquota',
  'limit_requests',
  'limit_burst_rate',
  '1302', // Zhipu
  '1303',
];

export const overloadCodes = [
  'overloaded_error',
  'overloaded',
  'server_overloaded',
  'engine_overloaded',
  'engine_overloaded_error',
  'service_unavailable',
  'service_unavailable_error',
  'insufficient_system_resource', // DeepSeek
  'unavailable',
  '1305', // Zhipu
];

export const overflowCodes = [
  'context_length_exceeded',
  'context_window_exceeded',
  'exceed_context_size_error', // llama.cpp
  'model_context_window_exceeded',
  'string_above_max_length',
  'request_too_large',
  '1261', // Zhipu
];

export const filterCodes = [
  'content_filter',
  'content_policy_violation',
  'responsibleaipolicyviolation', // Azure
  'data_inspection_failed', // Alibaba
  'datainspectionfailed',
  '1301', // Zhipu
];

export const keyCodes = [
  'invalid_api_key',
  'incorrect_api_key',
  'authentication_error',
  'invalid_authentication',
  'invalid_authentication_error',
  'unauthorized',
];

export const modelCodes = [
  'model_not_found',
  'model_not_exist',
  'invalid_model',
  'model_not_supported',
  'model_decommissioned', // Groq
  'deploymentnotfound', // Azure
];

/** Only inside a 200; elsewhere the status says it better. */
export const serverCodes = ['server_error', 'internal_error', 'internal_server_error', 'api_error'];

export const timeoutCodes = ['timeout', 'request_timeout', 'gateway_timeout', 'deadline_exceeded'];

/** OpenAI and Groq, under the code of a rate limit. */
export const largerThanAllowance =
  /request too large\b.*\btokens per min.*(?:must be reduced|reduce your message size)/is;

/** Before the overflow: "Too many tokens, please wait before trying again." */
export const rate =
  /\brate.?limit|too many (?:requests|tokens,? please wait)|please (?:wait|slow down)|requests per (?:minute|day)|限流|请求过于频繁|频率/i;

export const overflow = new RegExp(
  [
    'context[_ ]length[_ ]exceeded',
    'maximum context length', // OpenAI (older), DeepSeek, vLLM, OpenRouter
    'exceeds? the (?:model.s )?(?:maximum )?context (?:window|length)', // OpenAI
    'context window exceeds', // MiniMax
    'exceed(?:s|ed)? (?:the )?available context', // llama.cpp
    '(?:greater|longer) than the (?:model.s )?context length', // LM Studio
    'prompt is too long', // Anthropic
    'input is too long', // Bedrock
    'prompt (?:is )?too (?:long|large)',
    'input token count.*exceeds', // Gemini
    'maximum prompt length is', // xAI
    'prompt token count.*exceeds', // Copilot
    'exceeded model token limit', // Kimi
    'reduce the length of (?:the |your )?(?:messages|input|prompt)', // Groq
    'range of input length should be', // Qwen
    'too many (?:input )?tokens',
    'context size has been exceeded', // LM Studio
    '(?:输入|上下文|prompt).{0,12}(?:超长|过长|超过|超出)', // Zhipu and others
  ].join('|'),
  'is',
);

/** Plainly about money, whatever the status. */
export const balance =
  /insufficient[ _](?:account )?(?:balance|quota|credits?|funds)|credit balance is too low|out of credits|used all available credits|monthly spending limit|余额不足|欠费/i;
/** About money when permission is what was refused. */
export const quota = /quota|credit|billing|balance|spending limit/i;

export const filter =
  /content (?:management )?(?:filter|policy)|content filtering|data may contain inappropriate content|flagged (?:as|by)|violat\w+ our usage polic|敏感|不安全/i;
export const key = /(?:incorrect|invalid|missing|no) api[ -]?key|api key not valid|authentication fails|unauthorized/i;
export const noModel =
  /\bmodels?\b.{0,80}(?:not exist|not found|no longer|deprecated|decommissioned)|(?:unknown|invalid|no such) model|not a valid model|no endpoints found for/is;
export const overload =
  /overloaded|at capacity|server is busy|engine is (?:currently )?(?:busy|overloaded)|try again later/i;
