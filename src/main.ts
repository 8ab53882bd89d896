#!/usr/bin/env node
import type { Command } from './commands/command.ts'
import { keys } from './commands/keys.ts'
import { models } from './commands/models.ts'
import { orgs } from './commands/orgs.ts'
import { serve } from './commands/serve.ts'
import { SETTINGS_HELP } from './commands/settings-help.ts'
import { usage } from './commands/usage.ts'
import { ConfigError } from './config/config.ts'
import { version } from './service.ts'

const COMMANDS: ReadonlyMap<string, Command> = new Map([
  ['serve', serve],
  ['models', models],
  ['orgs', orgs],
  ['keys', keys],
  ['usage', usage],
])

const HELP = `Lookout: a self-hosted inference server for vision-language models.

Usage: node src/main.ts [COMMAND] [--help] [--version]

Commands:
${[...COMMANDS].map(([name, { summary }]) => `  ${name.padEnd(8)} ${summary}`).join('\n')}

${SETTINGS_HELP}`

/** The first word names the command; without one the server is run. */
async function main([first, ...rest]: readonly string[]): Promise<void> {
  if (first === '--help' || first === '-h') {
    process.stdout.write(HELP)
    return
  }
  if (first === '--version' || first === '-v') {
    process.stdout.write(`${await version()}\n`)
    return
  }
  const command = first === undefined ? serve : COMMANDS.get(first)
  if (!command) throw new ConfigError(`unknown command '${first}'; see --help`)
  if (rest.includes('--help') || rest.includes('-h')) process.stdout.write(command.help)
  else await command.run(rest)
}

function fail(error: unknown): never {
  process.stderr.write(`lookout: ${describe(error)}\n`)
  process.exit(1)
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if ('code' in error && error.code === 'EADDRINUSE' && 'port' in error) {
    return `port ${error.port} is in use; set LOOKOUT_PORT to another one, or to 0 for any`
  }
  if ('code' in error && error.code === 'EADDRNOTAVAIL') return 'LOOKOUT_HOST is not an address of this machine'
  return error.message
}

await main(process.argv.slice(2)).catch(fail)
