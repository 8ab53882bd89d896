// Runs programs without a shell, so that paths may contain spaces.
import { spawn } from 'node:child_process'

/**
 * Runs a program to its end and returns its output.
 * @throws Error with what the program printed; `code` is ENOENT when the program does not exist.
 */
export function run(command, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options })
    let output = ''
    let errors = ''
    child.stdout.on('data', (chunk) => {
      output += chunk
    })
    child.stderr.on('data', (chunk) => {
      errors += chunk
    })
    child.on('error', reject)
    child.on('close', (code, signal) => {
      if (code === 0) return resolve(output)
      const lines = (errors || output).trim().split('\n').slice(0, 5).join('\n')
      reject(new Error(`${command} ended with ${signal ?? `exit code ${code}`}:\n${lines}`))
    })
  })
}

/** Whether the program starts and exits with code 0. */
export async function isInstalled(command, args = ['--version']) {
  try {
    await run(command, args)
    return true
  } catch {
    return false
  }
}
