import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { ConfigError } from '../config/config.ts'
import { makeFolder } from '../lib/make-folder.ts'
import { writeSecret } from '../lib/secrets/secret-file.ts'
import { version } from '../lib/version.ts'
import { CONNECTION_HELP, CONNECTION_OPTIONS, chosenModel, findPlace, type Opened } from './asking/connection.ts'
import { note } from './asking/screen.ts'
import type { Command } from './command.ts'
import { loadConfig } from './load-config.ts'
import { AllowedMedia } from './mcp/allowed-media.ts'
import { Eyes } from './mcp/eyes.ts'
import { clientFolders } from './mcp/folders.ts'
import { openHttpDoor } from './mcp/http-door.ts'
import { createMcpServer } from './mcp/mcp-server.ts'
import { readOptions } from './options.ts'

/** How long calls may take to remove their files from the server. */
const MOST_PARTING_MS = 2_000

export const mcp: Command = {
  help: `Usage: lookout mcp [--root FOLDER]... [options]

Gives agents eyes: serves the Model Context Protocol on standard input and output, with the tools list, look, detect, decide
and read, and pictures as resources.
Agents name files below the folders, or http(s) addresses, which the server fetches.

  --root           a folder whose files agents can ask about; can be given more than once. Without it, the folders that the
                   client offers (roots), and over HTTP none
  --http           serve on this port of 127.0.0.1 instead, by streamable HTTP; 0 takes any free port
  --mcp-key        the key that HTTP clients must send; by default a new one, which is printed on a terminal
                   and otherwise kept in a file whose name is printed
${CONNECTION_HELP}

lookout --help lists the settings.
`,
  async run(args) {
    const { values } = readOptions(
      args,
      {
        ...CONNECTION_OPTIONS,
        root: { type: 'string', multiple: true },
        http: { type: 'string' },
        'mcp-key': { type: 'string' },
      },
      [],
    )
    const port = readPort(values.http)
    const named = await AllowedMedia.of(values.root ?? [])
    // Folders that the command names are for every client.
    const folders = port === null && values.root === undefined ? clientFolders : async () => named
    const place = await findPlace({ server: values.server, key: values.key })
    const model = chosenModel(place, values.model)

    // A model for this command alone is loaded at the first call.
    let opened: Promise<Opened> | null = null
    const eyes = new Eyes(async (call) => {
      call.say('Loading the model')
      opened ??= place.open(model).catch((error: Error) => {
        // The next call tries again.
        opened = null
        throw new ConfigError(error.message)
      })
      return { client: (await opened).client, model }
    })
    const ownVersion = await version()
    const create = () => createMcpServer(eyes, folders, ownVersion)
    const ended = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')])
    if (port === null) {
      const handle = serveStdio(create, { onerror: ({ message }) => note(message) })
      await Promise.race([once(process.stdin, 'close'), once(process.stdin, 'end'), ended])
      await handle.close()
    } else {
      const key = readKey(values['mcp-key']) ?? randomBytes(24).toString('base64url')
      await using door = await openHttpDoor(create, key, port)
      await using shown = new AsyncDisposableStack()
      const about = values['mcp-key'] === undefined ? `, with the key ${await showKey(key, door.url, shown)}` : ''
      note(`serving MCP at ${door.url}${about}`)
      await ended
    }
    // Calls are cancelled by now. A service that was started for this process sees it end and ends too.
    await Promise.race([eyes.settled(), delay(MOST_PARTING_MS)])
    process.exit(0)
  },
}

/**
 * @returns the key on a terminal; otherwise, as that may be a log, a file that holds it until `shown` is disposed of.
 */
async function showKey(key: string, url: string, shown: AsyncDisposableStack): Promise<string> {
  if (process.stderr.isTTY) return key
  const { dataDirectory } = await loadConfig()
  const path = join(dataDirectory, `mcp-key-${new URL(url).port}`)
  await makeFolder(dataDirectory)
  await writeSecret(path, key)
  shown.defer(() => rm(path, { force: true }))
  return `in ${path}`
}

/** A header can carry only these characters. */
function readKey(given: string | undefined): string | undefined {
  if (given === undefined || /^[\x21-\x7e]+$/.test(given)) return given
  throw new ConfigError('--mcp-key: expected ASCII characters without blanks')
}

function readPort(given: string | undefined): number | null {
  if (given === undefined) return null
  if (!/^\d{1,5}$/.test(given) || Number(given) > 65_535)
    throw new ConfigError(`--http: expected a port, not '${given}'`)
  return Number(given)
}
