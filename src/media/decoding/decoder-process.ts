import { readSync } from 'node:fs'
import { releaseMemoryWhenIdle } from '../../lib/memory.ts'
import { type ByteSource, FileSource, MemorySource } from './byte-source.ts'
import type { FFmpeg } from './ffmpeg.ts'
import {
  BYTES_FD,
  type DecodeReply,
  type DecodeResult,
  type DecoderEvent,
  type DecoderMessage,
  type DecodeTask,
  type SentData,
} from './protocol.ts'
import { Refusal } from './refusal.ts'

/**
 * The process that touches untrusted bytes, one task at a time. A decoder that crashes or is exhausted takes only this
 * process with it. Ends when its parent goes.
 */
let ffmpeg: FFmpeg | null = null
/** Ends the wait for much memory. */
let granted: (() => void) | null = null

/** Resolves when this process may take much memory, as one of all at a time. */
function grant(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  granted = resolve
  process.send?.({ ok: 'asks' } satisfies DecoderEvent)
  return promise
}

async function decode(task: DecodeTask<ByteSource>): Promise<DecodeResult> {
  // Each decoder is loaded when it is first needed: most processes only ever see pictures.
  if (task.type === 'image') return (await import('./image.ts')).decodeImage(task, grant)
  ffmpeg ??= await loadFFmpeg()
  if (task.type === 'video') return (await import('./video.ts')).decodeVideo(ffmpeg, task, grant)
  return (await import('./audio.ts')).decodeAudio(ffmpeg, task)
}

/** What is missing is the server's own: no input is to blame. */
class Unavailable extends Error {}

async function loadFFmpeg(): Promise<FFmpeg> {
  try {
    return (await import('./ffmpeg.ts')).loadFFmpeg()
  } catch (cause) {
    throw new Unavailable('Video and audio cannot be decoded: a package @seydx/node-av-* is missing', { cause })
  }
}

/** The bytes of a task; waits for them, since there is nothing else to do. */
function receive(length: number): Uint8Array {
  const bytes = Buffer.allocUnsafeSlow(length)
  for (let offset = 0; offset < length; ) {
    const count = readSync(BYTES_FD, bytes, offset, length - offset, null)
    if (count === 0) throw new Error('The parent has gone')
    offset += count
  }
  return bytes
}

function open(data: SentData): ByteSource {
  if ('byteLength' in data) return new MemorySource(receive(data.byteLength))
  try {
    return new FileSource(data.path)
  } catch (cause) {
    throw new Unavailable('The file of an input is gone', { cause })
  }
}

process.on('message', async (task: DecoderMessage) => {
  if (task.type === 'granted') return granted?.()
  let reply: DecodeReply
  try {
    using data = open(task.data)
    reply = { ok: true, result: await decode({ ...task, data }) }
  } catch (error) {
    if (error instanceof Unavailable) reply = { ok: null, message: error.message }
    else if (error instanceof Refusal) reply = { ok: false, message: error.message, code: error.code }
    else reply = { ok: false, message: 'The file cannot be decoded', code: null }
  }
  process.send?.(reply)
})
releaseMemoryWhenIdle()
// Native decoders have threads that an orderly exit would wait for.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
// A terminal's Ctrl-C, or a service manager's SIGTERM, reaches the whole group; the parent decides when this process ends.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
