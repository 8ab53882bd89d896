import { execFile } from 'node:child_process'
import { expect, test } from 'vitest'

/** Another machine, as far as a program that asks Node can tell. */
const windows = `Object.defineProperty(process, 'platform', { value: 'win32' })`
const oldMac = `Object.defineProperty(process, 'platform', { value: 'darwin' })
  Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '22.1.0' } })`
const oldLinux = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '22.1.0' } })`

const SETUP = ['scripts/setup.mjs']
const COMMAND = ['src/main.ts', 'config', 'check']

test.each([
  [
    'set-up on Windows',
    windows,
    SETUP,
    /^\nlookout setup failed: Lookout does not run on Windows itself\. Run it in WSL2/,
  ],
  ['a command on Windows', windows, COMMAND, /^lookout: Lookout does not run on Windows itself\. Run it in WSL2/],
  [
    'set-up on a Mac with an old Node',
    oldMac,
    SETUP,
    /^\nlookout setup failed: Lookout needs Node 24 or newer, and this is 22/,
  ],
  ['a command on a Mac with an old Node', oldMac, COMMAND, /^lookout: Lookout needs Node 24 or newer, and this is 22/],
  [
    'a command on Linux, past the Node of npm ci',
    oldLinux,
    COMMAND,
    /^lookout: Lookout needs Node 24.* with npx lookout /,
  ],
])('%s says in one line what is needed', async (_where, machine, command, message) => {
  const args = ['--import', `data:text/javascript,${encodeURIComponent(machine)}`, ...command]
  const { code, stderr } = await new Promise<{ code: unknown; stderr: string }>((resolve) => {
    execFile(process.execPath, args, (error, _stdout, stderr) => resolve({ code: error?.code, stderr }))
  })
  expect(code).toBe(1)
  expect(stderr).toMatch(message)
  expect(stderr.trim()).not.toContain('\n')
})
