import { readSync } from 'node:fs'
import { releaseMemoryWhenIdle } from '../../lib/memory.ts'
import { type ByteSource, FileSource, MemorySource } from './byte-source.ts'
import type { FFmpeg } from './ffmpeg.ts'
import { InvalidMedia } from './invalid-media.ts'
import {
  BYTES_FD,
  type DecodeReply,
  type DecodeResult,
  type DecoderEvent,
  type DecoderMessage,
  type DecodeTask,
  type SentData,
} from './protocol.ts'

/**
 * The process that handles untrusted bytes, one task at a time. A decoder that crashes or runs out of memory takes down
 * only this process. It ends when its parent ends.
 */
let ffmpeg: FFmpeg | null = null
/** Resolves the pending request for much memory. */
let granted: (() => void) | null = null

/** Resolves when this process may take much memory. Only one process may at a time. */
function grant(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  granted = resolve
  process.send?.({ ok: 'needs_memory' } satisfies DecoderEvent)
  return promise
}

async function decode(task: DecodeTask<ByteSource>): Promise<DecodeResult> {
  // Decoders are loaded on first use: most processes only ever decode images.
  if (task.type === 'image') return (await import('./image.ts')).decodeImage(task, grant)
  ffmpeg ??= await loadFFmpeg()
  if (task.type === 'video') return (await import('./video.ts')).decodeVideo(ffmpeg, task, grant)
  return (await import('./audio.ts')).decodeAudio(ffmpeg, task)
}

/** A failure of the server, not of the input. */
class Unavailable extends Error {}

async function loadFFmpeg(): Promise<FFmpeg> {
  try {
    return (await import('./ffmpeg.ts')).loadFFmpeg()
  } catch (cause) {
    throw new Unavailable(
      'Video and audio cannot be decoded: the @seydx/node-av package for this platform is missing',
      { cause },
    )
  }
}

/** Reads the bytes of a task. It blocks, since the process has nothing else to do. */
function receive(length: number): Uint8Array {
  const bytes = Buffer.allocUnsafeSlow(length)
  for (let offset = 0; offset < length; ) {
    const count = readSync(BYTES_FD, bytes, offset, length - offset, null)
    if (count === 0) throw new Error('The parent process has ended')
    offset += count
  }
  return bytes
}

function open(data: SentData): ByteSource {
  if ('byteLength' in data) return new MemorySource(receive(data.byteLength))
  try {
    return new FileSource(data.path)
  } catch (cause) {
    throw new Unavailable('The file of an input cannot be opened', { cause })
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
    else if (error instanceof InvalidMedia) reply = { ok: false, message: error.message, code: error.code }
    else reply = { ok: false, message: 'The file cannot be decoded', code: null }
  }
  process.send?.(reply)
})
releaseMemoryWhenIdle()
// A regular exit would wait for the threads of native decoders.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
// Ctrl-C in a terminal and a service manager's SIGTERM reach the whole process group. The parent ends this process.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
