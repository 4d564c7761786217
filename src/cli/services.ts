/**
 * The real services behind the commands. The only file here that knows settings, the log and the composition root; each is
 * loaded when it is first needed.
 */
import type { Settings } from '../config.js';
import { PawlError } from '../core/errors.js';
import type { Log } from '../ports.js';
import type { Terminal } from './terminal.js';
import type { Services } from './world.js';

export function realServices(terminal: Terminal): Services {
  let read: Settings | null = null;

  /** Read once; a name that looks like a setting and is none is told to whoever set it. */
  async function settings(): Promise<Settings> {
    if (read !== null) return read;
    const { loadSettings } = await import('../config.js');
    const { settings, warnings } = loadSettings();
    for (const warning of warnings) terminal.say(terminal.paintErr('yellow', `warning: ${warning}`));
    read = settings;
    return settings;
  }

  async function log(read: Settings): Promise<Log> {
    const { createLog } = await import('../log.js');
    const { logLevel: level, logDir: dir, secrets } = read;
    return createLog({ level, dir, secrets, readable: terminal.hearsMessages, colour: terminal.paintsMessages });
  }

  return {
    async open(log, options) {
      const read = await settings();
      const { openApp } = await import('../setup.js');
      return openApp(read, log, options);
    },
    async migrate(log) {
      const read = await settings();
      const { migrateDatabase } = await import('../setup.js');
      return migrateDatabase(read, log);
    },
    async startWorker(role) {
      const read = await settings();
      await import('../index.js'); // what a config imports as 'pawl': it must be there before the loader's hooks are
      const { runWorker } = await import('../setup.js');
      const logger = await log(read);
      const worker = await runWorker(read, role, logger);
      logger.info({ role, agents: worker.agents, queue: worker.queueKind }, 'worker ready');
      return worker;
    },
    async startServer() {
      const read = await settings();
      await import('../index.js');
      const { runServer } = await import('../setup.js');
      return runServer(read, await log(read));
    },
    async examine(options, log) {
      const { examine, examineWithoutSettings } = await import('../doctor.js');
      let read: Settings;
      try {
        read = await settings();
      } catch (error) {
        if (error instanceof PawlError) return examineWithoutSettings(error);
        throw error;
      }
      return examine(read, log, options);
    },
    async runDemo({ csv }, interrupt) {
      const read = await settings();
      const [{ runDemo }, { pawlDir }] = await Promise.all([import('../demo/run-demo.js'), import('../setup.js')]);
      return runDemo({ settings: read, pawlDir: pawlDir(read), csv, terminal, interrupt });
    },
    async showsStacks() {
      const read = await settings().catch(() => null);
      return read?.logLevel === 'debug';
    },
  };
}
