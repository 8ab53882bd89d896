import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { type Command, expectNoArguments } from './command.ts'

const SCRIPT = fileURLToPath(new URL('../../scripts/setup.mjs', import.meta.url))

export const setup: Command = {
  help: `Usage: lookout setup

Compiles what this machine has no prebuilt library for, with a C++ compiler, and fetches the GPU backend that
LOOKOUT_BACKEND names: vulkan or cuda. The results are in the cache folder (LOOKOUT_CACHE_DIR), where the server finds
them at its next start.
`,
  async run(args) {
    expectNoArguments(args)
    const [code] = await once(spawn(process.execPath, [SCRIPT], { stdio: 'inherit' }), 'exit')
    process.exitCode = code ?? 1
  },
}
