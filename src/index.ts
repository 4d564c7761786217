/**
 * The public API: what `import … from 'pawl'` gives. Nothing else of these sources is for users; pawl/testing is apart.
 */
export { createPawl, type Pawl, type PawlOptions } from './client.js';
export {
  type Agent,
  type AgentOptions,
  type AnswerLook,
  defineAgent,
  type StopLook,
  type ToolResult,
} from './core/agent.js';
export { type Config, type ConfigOptions, defineConfig, type ModelSettings } from './core/config.js';
export { type ErrorCode, PawlError } from './core/errors.js';
export type { Fact, FactScope, KnownFact } from './core/fact.js';
export { numbersFromTools } from './core/numbers-from-tools.js';
export {
  defineTool,
  notStarted,
  type OnUnknown,
  permissionDenied,
  type Tool,
  type ToolContext,
  type ToolOptions,
  type UnknownAnswer,
  type UnknownCall,
} from './core/tool.js';
export type { EventView, RunFilter, RunPage, RunView, StepView } from './core/view.js';
export type { Words } from './core/words.js';
export type { Resolve } from './engine/runs.js';
export type { StartedOfMany, StartedRun } from './engine/start-many.js';
export type { StartRun } from './engine/start-run.js';
export { recall, remember } from './tools/remember.js';
