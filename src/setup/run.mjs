// Runs programs without a shell, so that paths may contain spaces.
import { spawn } from 'node:child_process'

/** @import { ChildProcess, SpawnOptions } from 'node:child_process' */

/**
 * Runs a program to its end and returns its output.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {SpawnOptions & { limitMs?: number | null }} options of `spawn`, and the time after which the program is
 * killed.
 * @returns {Promise<string>}
 * @throws Error with what the program printed; `code` is ENOENT when the program does not exist.
 */
export function run(command, args, { limitMs = null, ...options } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options })
    const timer =
      limitMs === null
        ? null
        : setTimeout(() => {
            giveUp(child)
            reject(new Error(`${command} did not answer within ${limitMs / 1000} s`))
          }, limitMs)
    let output = ''
    let errors = ''
    child.stdout.on('data', (chunk) => {
      output += chunk
    })
    child.stderr.on('data', (chunk) => {
      errors += chunk
    })
    child.on('error', (error) => {
      clearTimeout(timer)
      reject(error)
    })
    child.on('close', (code, signal) => {
      clearTimeout(timer)
      if (code === 0) return resolve(output)
      const lines = (errors || output).trim().split('\n').slice(0, 5).join('\n')
      reject(new Error(`${command} ended with ${signal ?? `exit code ${code}`}:\n${lines}`))
    })
  })
}

/**
 * Kills a program without waiting for its end: if it hangs in a driver, it ends only with the driver.
 * @param {ChildProcess} child with pipes for its outputs.
 */
export function giveUp(child) {
  child.kill('SIGKILL')
  child.stdout.destroy()
  child.stderr.destroy()
  child.unref()
}

/** Whether the program starts and exits with code 0. @param {string} command */
export async function isInstalled(command, args = ['--version']) {
  try {
    await run(command, args)
    return true
  } catch {
    return false
  }
}
