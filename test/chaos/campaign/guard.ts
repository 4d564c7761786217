/**
 * Ends what a killed supervisor would leave running. A shell whose stdin ends with the supervisor kills the processes it was
 * told of and removes the folders; told to go home, it does nothing.
 */
import { spawn } from 'node:child_process';

export interface Guard {
  /** A process to end, by its id; one that is over by then is passed over. */
  watch(pid: number): void;
  /** A folder to remove. */
  remove(folder: string): void;
  /** Everything ended as it should. */
  dismiss(): void;
}

export function openGuard(): Guard {
  // A folder may hold the small file system of postgres-service.ts.
  const script = `
    pids=''
    while read -r word what; do
      case $word in
        home) exit 0 ;;
        watch) pids="$pids $what" ;;
        remove) set -- "$@" "$what" ;;
      esac
    done
    for pid in $pids; do kill -KILL "$pid" 2>/dev/null; done
    sleep 1
    for folder in "$@"; do umount "$folder"/small 2>/dev/null; rm -rf "$folder"; done`;
  const shell = spawn('/bin/sh', ['-c', script, 'sh'], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  shell.on('error', () => {}); // a machine without a shell goes without
  shell.stdin.on('error', () => {});
  shell.unref();
  return {
    watch: (pid) => void shell.stdin.write(`watch ${pid}\n`),
    remove: (folder) => void shell.stdin.write(`remove ${folder}\n`),
    dismiss: () => void shell.stdin.end('home\n'),
  };
}
