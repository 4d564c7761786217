/** What every command is handed: the world it acts in, and the exit status it leaves behind. */
import type { World } from './world.js';

export interface Cli {
  world: World;
  exit: number;
}
