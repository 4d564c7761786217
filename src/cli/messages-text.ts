/** The messages of a run as a transcript for people: who spoke, under which step, and what was said or asked for. */
import type { StoredMessage } from '../core/message.js';
import type { Terminal } from './terminal.js';
import { harmless } from './width.js';

export function messagesText(terminal: Terminal, messages: readonly StoredMessage[]): string {
  return messages.map((message) => messageText(terminal, message)).join('\n\n');
}

function messageText(terminal: Terminal, { seq, message }: StoredMessage): string {
  const step = seq === 0 ? '' : seq < 0 ? `  ${-seq} run${seq === -1 ? '' : 's'} before` : `  step ${seq}`;
  switch (message.role) {
    case 'user':
      return block(terminal, `user${step}`, message.content);
    case 'assistant': {
      const calls = message.toolCalls.map((call) => `→ ${call.name} ${call.arguments}  (${call.id})`);
      return block(
        terminal,
        `assistant${step}`,
        [message.content ?? '', ...calls].filter((part) => part !== '').join('\n'),
      );
    }
    case 'tool':
      return block(terminal, `tool ${message.name}  (${message.callId})`, message.content);
  }
}

function block(terminal: Terminal, title: string, text: string): string {
  return `${terminal.paintOut('bold', harmless(title))}\n${harmless(text).replace(/^(?=.)/gm, '  ')}`;
}
