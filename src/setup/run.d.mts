import type { SpawnOptions } from 'node:child_process'

/** Runs a program to its end and returns its output. */
export function run(command: string, args: readonly string[], options?: SpawnOptions): Promise<string>
/** Whether the program starts and exits with code 0. */
export function isInstalled(command: string, args?: readonly string[]): Promise<boolean>
