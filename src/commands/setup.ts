import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { type Command, expectNoArguments } from './command.ts'

const SCRIPT = fileURLToPath(new URL('../../scripts/setup.mjs', import.meta.url))

export const setup: Command = {
  help: `Usage: lookout setup

Compiles the libraries that are not prebuilt for this machine, with a C++ compiler, and fetches the GPU backend that
LOOKOUT_BACKEND names: vulkan or cuda. They go into the cache folder (LOOKOUT_CACHE_DIR), where the server finds them at
its next start.
`,
  async run(args) {
    expectNoArguments(args)
    const [code] = await once(spawn(process.execPath, [SCRIPT], { stdio: 'inherit' }), 'exit')
    process.exitCode = code ?? 1
  },
}
