/** A small SMTP server for tests: takes mail, or breaks at the point a test names. Not an example of how to write one. */

import type { AddressInfo } from 'node:net';
import { createServer, type Socket } from 'node:net';

export type BreakAt =
  | 'greeting'
  | 'mail'
  | 'rcpt'
  | 'rcpt-second'
  | 'data'
  | 'body-refused'
  | 'body-dropped'
  | 'body-silent';

export interface SmtpServer {
  url: string;
  /** Whole messages that arrived, accepted or not. */
  messages: string[];
  /** Called when a message arrived whole. */
  onMessage: () => void;
  close(): Promise<void>;
}

export async function startSmtpServer(breakAt?: BreakAt): Promise<SmtpServer> {
  const sockets = new Set<Socket>();
  const state: SmtpServer = { url: '', messages: [], onMessage: () => {}, close: async () => {} };
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {});
    serve(socket, state, breakAt);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  state.url = `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`;
  state.close = async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  return state;
}

function serve(socket: Socket, state: SmtpServer, breakAt: BreakAt | undefined): void {
  let buffer = '';
  let inBody = false;
  let recipients = 0;
  const say = (line: string) => socket.write(`${line}\r\n`);
  if (breakAt === 'greeting') {
    socket.end('421 closing\r\n');
    return;
  }
  say('220 test');
  const command = (line: string) => {
    if (/^(EHLO|HELO)/i.test(line)) say('250 test');
    else if (/^MAIL/i.test(line)) say(breakAt === 'mail' ? '550 no such sender' : '250 ok');
    else if (/^RCPT/i.test(line)) {
      recipients += 1;
      say(breakAt === 'rcpt' || (breakAt === 'rcpt-second' && recipients === 2) ? '550 no such user' : '250 ok');
    } else if (/^DATA/i.test(line)) {
      if (breakAt === 'data') {
        socket.destroy();
      } else {
        inBody = true;
        say('354 go on');
      }
    } else if (/^QUIT/i.test(line)) socket.end('221 bye\r\n');
    else say('250 ok');
  };
  socket.on('data', (chunk) => {
    buffer += chunk.toString('utf8');
    for (;;) {
      const end = inBody ? buffer.indexOf('\r\n.\r\n') : buffer.indexOf('\r\n');
      if (end === -1) return;
      const text = buffer.slice(0, end);
      buffer = buffer.slice(end + (inBody ? 5 : 2));
      if (!inBody) {
        command(text);
        continue;
      }
      inBody = false;
      state.messages.push(text);
      if (breakAt === 'body-dropped') socket.destroy();
      else if (breakAt === 'body-refused') say('554 spam');
      else if (breakAt !== 'body-silent') say('250 queued as 42');
      state.onMessage();
    }
  });
}
