import type { SpawnOptions } from 'node:child_process'

/** Runs to the end and returns what the program printed. */
export function run(command: string, args: readonly string[], options?: SpawnOptions): Promise<string>
/** Whether the program can be started at all. */
export function isInstalled(command: string, args?: readonly string[]): Promise<boolean>
