#!/usr/bin/env node
import type { Command } from './commands/command.ts'
import { forTerminal } from './commands/for-terminal.ts'
import { keepCompiledCode } from './setup/compile-cache.mjs'
import { checkNode, checkPlatform } from './setup/requirements.mjs'

interface ListedCommand {
  readonly summary: string
  /** Loads what the command needs, which can be most of the program, when it is asked for. */
  load(): Promise<Command>
}

const serve: ListedCommand = {
  summary: 'run the server',
  load: async () => (await import('./commands/serve.ts')).serve,
}
const COMMANDS: Readonly<Record<string, ListedCommand>> = {
  serve,
  chat: {
    summary: 'ask a model about images, videos and audio',
    load: async () => (await import('./commands/chat.ts')).chat,
  },
  detect: {
    summary: 'find objects in images: as a drawing, a table, JSON, CSV, COCO or YOLO',
    load: async () => (await import('./commands/detect.ts')).detect,
  },
  batch: {
    summary: 'find objects in many images, or ask about them; rerun a batch and compare',
    load: async () => (await import('./commands/batch.ts')).batch,
  },
  decide: {
    summary: 'answer typed questions about images, with probabilities',
    load: async () => (await import('./commands/decide.ts')).decide,
  },
  watch: {
    summary: 'push the pictures of a folder to standing questions, and print events',
    load: async () => (await import('./commands/watch.ts')).watch,
  },
  mcp: {
    summary: 'give agents eyes: a Model Context Protocol server',
    load: async () => (await import('./commands/mcp.ts')).mcp,
  },
  calibrate: {
    summary: 'calibrate the probabilities of a model with your own examples',
    load: async () => (await import('./commands/calibrate.ts')).calibrate,
  },
  pull: {
    summary: 'fetch a model from Hugging Face, a mirror or an address',
    load: async () => (await import('./commands/models/pull.ts')).pull,
  },
  add: {
    summary: 'use a GGUF file of your own',
    load: async () => (await import('./commands/models/add.ts')).add,
  },
  rm: {
    summary: 'remove a model that was pulled or added',
    load: async () => (await import('./commands/models/rm.ts')).rm,
  },
  models: {
    summary: 'list the models, and what they need',
    load: async () => (await import('./commands/models/models.ts')).models,
  },
  card: {
    summary: 'show the card of a model, and where each value comes from',
    load: async () => (await import('./commands/models/card.ts')).card,
  },
  doctor: {
    summary: 'examine a model: compare what it does with what its card promises',
    load: async () => (await import('./commands/models/doctor.ts')).doctor,
  },
  'export-hf': {
    summary: 'write a model as a folder that vLLM and Hugging Face Transformers load',
    load: async () => (await import('./commands/models/export-hf.ts')).exportHf,
  },
  keys: {
    summary: 'create, list and revoke API keys',
    load: async () => (await import('./commands/accounts/keys.ts')).keys,
  },
  orgs: {
    summary: 'create, list, limit and revoke organisations',
    load: async () => (await import('./commands/accounts/orgs.ts')).orgs,
  },
  usage: {
    summary: 'show usage as a table or CSV',
    load: async () => (await import('./commands/accounts/usage.ts')).usage,
  },
  health: {
    summary: 'check that the server of this machine accepts requests',
    load: async () => (await import('./commands/health.ts')).health,
  },
  setup: {
    summary: 'compile kernels for this machine, and fetch a GPU backend',
    load: async () => (await import('./commands/setup.ts')).setup,
  },
  config: {
    summary: 'check the settings without starting anything',
    load: async () => (await import('./commands/config.ts')).config,
  },
}

const help = async () => `Lookout: a self-hosted inference server for vision-language models.

Usage: npx lookout [COMMAND] [--help] [--version]

Commands:
${Object.entries(COMMANDS)
  .map(([name, { summary }]) => `  ${name.padEnd(9)} ${summary}`)
  .join('\n')}

${(await import('./commands/settings-help.ts')).SETTINGS_HELP}`

/** The first word names the command; without one the server is run. */
async function main([first, ...rest]: readonly string[]): Promise<void> {
  // Before anything else is loaded. That is why this file imports so little itself.
  keepCompiledCode()
  endWithLauncher()
  if (first !== undefined && first !== 'serve') endWithReader()
  if (first === '--help' || first === '-h') {
    process.stdout.write(await help())
    return
  }
  if (first === '--version' || first === '-v') {
    process.stdout.write(`${await (await import('./lib/version.ts')).version()}\n`)
    return
  }
  checkPlatform()
  checkNode()
  const listed = first === undefined ? serve : Object.hasOwn(COMMANDS, first) ? COMMANDS[first] : undefined
  if (!listed) throw new Error(`unknown command '${first}'; see --help`)
  const command = await listed.load()
  if (rest.includes('--help') || rest.includes('-h')) process.stdout.write(command.help)
  else await command.run(rest)
}

/**
 * A launcher that is killed takes this process with it: nothing else would end a server that holds the port. Another
 * parent may close its channel to let this process go.
 */
function endWithLauncher(): void {
  const isLaunched = process.env.LOOKOUT_LAUNCHER !== undefined
  delete process.env.LOOKOUT_LAUNCHER
  if (!isLaunched || !process.connected) return
  process.once('disconnect', () => process.exit(1))
  process.channel?.unref()
}

/** Lets a reader that closes the pipe (`| head -1`) end the process quietly. A server outlives the reader of its log. */
function endWithReader(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))
  }
}

function fail(error: unknown): never {
  process.stderr.write(`lookout: ${forTerminal(error instanceof Error ? error.message : String(error))}\n`)
  process.exit(1)
}

await main(process.argv.slice(2)).catch(fail)
