/**
 * `pawl/testing`: what a user needs to test an agent offline. A scripted model, over HTTP as the real one or in process.
 */
export type { RecordedRequest, ScriptedModel, ScriptedModelOptions } from './model-server.js';
export { startScriptedModel } from './model-server.js';
export type {
  Script,
  ScriptContext,
  ScriptedAnswer,
  ScriptedCall,
  ScriptedFault,
  ScriptedReply,
  ScriptedRequest,
} from './script.js';
export { inTurn } from './script.js';
export type { ScriptedLlm, ScriptedLlmOptions } from './scripted-llm.js';
export { scriptedLlm } from './scripted-llm.js';
export type { Breach } from './strictness.js';
export { findBreach } from './strictness.js';
