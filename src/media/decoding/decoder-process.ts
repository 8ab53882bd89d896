import { readSync } from 'node:fs'
import { releaseMemoryWhenIdle } from '../../garbage.ts'
import type { FFmpeg } from './ffmpeg.ts'
import { BYTES_FD, type DecodeMessage, type DecodeReply, type DecodeResult, type DecodeTask } from './protocol.ts'
import { Refusal } from './refusal.ts'

/**
 * The process that touches untrusted bytes, one task at a time. A decoder that crashes or is exhausted takes only this
 * process with it. Ends when its parent goes.
 */
let ffmpeg: FFmpeg | null = null

async function decode(task: DecodeTask): Promise<DecodeResult> {
  // Each decoder is loaded when it is first needed: most processes only ever see pictures.
  if (task.type === 'image') return (await import('./image.ts')).decodeImage(task)
  ffmpeg ??= await loadFFmpeg()
  if (task.type === 'video') return (await import('./video.ts')).decodeVideo(ffmpeg, task)
  return (await import('./audio.ts')).decodeAudio(ffmpeg, task)
}

/** Without its package no input is to blame. */
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

process.on('message', async ({ byteLength, ...message }: DecodeMessage) => {
  let reply: DecodeReply
  try {
    const task = { ...message, bytes: receive(byteLength) } as DecodeTask
    reply = { ok: true, result: await decode(task) }
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
