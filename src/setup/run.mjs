// Starts a program without a shell, so that paths may hold blanks.
import { spawn } from 'node:child_process'

/**
 * Runs to the end and returns what the program printed.
 * @throws Error with the program's own words; `code` is ENOENT when there is no such program.
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
      const words = (errors || output).trim().split('\n').slice(0, 5).join('\n')
      reject(new Error(`${command} ended with ${signal ?? `exit code ${code}`}:\n${words}`))
    })
  })
}

/** Whether the program can be started at all. */
export async function isInstalled(command, args = ['--version']) {
  try {
    await run(command, args)
    return true
  } catch {
    return false
  }
}
