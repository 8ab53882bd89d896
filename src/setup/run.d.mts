import type { ChildProcess, SpawnOptions } from 'node:child_process'

/** Runs a program to its end and returns its output. It is killed after `limitMs`. */
export function run(
  command: string,
  args: readonly string[],
  options?: SpawnOptions & { readonly limitMs?: number },
): Promise<string>
/** Kills a program with pipes for its outputs, without waiting for its end. */
export function giveUp(child: ChildProcess): void
/** Whether the program starts and exits with code 0. */
export function isInstalled(command: string, args?: readonly string[]): Promise<boolean>
