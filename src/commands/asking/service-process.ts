/**
 * The process of a service for one command. It ends when that command ends, for any reason, and removes the service's
 * files: the command itself can do neither at the moment of a Ctrl-C.
 *
 * It gets a `Config`, whose folders it replaces, and sends a `ServiceProcessMessage`.
 */
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Config } from '../../config/config.ts'
import { startEngine } from '../../inference/engines/engines.ts'
import { Service } from '../../service.ts'

export type ServiceProcessMessage = { readonly url: string } | { readonly error: string }

// Ctrl-C reaches every process of the terminal; this one waits for the command to end, and then tidies up.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
const ending = new AbortController()
const ended = once(process, 'disconnect').then(() => ending.abort())

async function main(config: Config): Promise<void> {
  const dataDirectory = await mkdtemp(join(tmpdir(), 'lookout-once-'))
  try {
    const own = {
      ...config,
      dataDirectory,
      blobs: join(dataDirectory, 'files'),
      modelStore: join(dataDirectory, 'models'),
    }
    const service = await Service.start(own, {
      startEngine: (card, options) =>
        startEngine(card, {
          ...options,
          signal: AbortSignal.any([ending.signal, ...(options.signal ? [options.signal] : [])]),
        }),
      logs: { write: () => {} },
    })
    say({ url: service.url })
    await ended
    await service.close()
  } catch (error) {
    say({ error: error instanceof Error ? error.message : String(error) })
    await ended
  } finally {
    await rm(dataDirectory, { recursive: true, force: true })
  }
}

function say(message: ServiceProcessMessage): void {
  if (process.connected) process.send!(message)
}

const [config] = await Promise.race([once(process, 'message') as Promise<[Config]>, ended.then(() => [null])])
if (config) await main(config)
process.exit(0)
