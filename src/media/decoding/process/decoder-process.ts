import { openSync, readSync } from 'node:fs'
import { flushCompileCache } from 'node:module'
import { collectBuffers, releaseMemoryWhenIdle } from '../../../lib/guarded/memory.ts'
import { HEAD_BYTES, mediaType } from '../../media-type.ts'
import { endWithParent, isToBeConfined } from '../../sandbox/confined-process.ts'
import { receiveDescriptor } from '../../sandbox/descriptors.ts'
import { confine } from '../../sandbox/seccomp.ts'
import type { decodeAudio } from '../audio.ts'
import { type ByteSource, fileSource, memorySource } from '../byte-source.ts'
import type { Pdfium, readDocument, renderPage } from '../document.ts'
import type { FFmpeg } from '../ffmpeg.ts'
import { InvalidMedia, NoThread } from '../invalid-media.ts'
import type { decodeVideo } from '../video.ts'
import {
  BYTES_FD,
  type DecodeReply,
  type DecodeResult,
  type DecoderEvent,
  type DecoderMessage,
  type DecodeTask,
  FILES_FD,
  LIBRARIES,
  PRELOADS,
  type SentData,
} from './protocol.ts'

/**
 * The process that handles untrusted bytes, one task at a time. A decoder that crashes or runs out of memory takes down
 * only this process. It ends when its parent ends.
 *
 * Decoders are loaded on first use: most processes only ever decode images, and need no FFmpeg. A process that is to be
 * confined gives up its rights once it has loaded what its first task needs, before it parses the first byte. It can load
 * nothing after that, so one whose first task is not an image loads what decodes images as well.
 */
let images: typeof import('../image.ts') | null = null
let ffmpegDecoders: FfmpegDecoders | null = null
let documents: DocumentDecoders | null = null
let isConfined = false
let isPrepared = false
/** Resolves the pending request for much memory. */
let granted: (() => void) | null = null

/** Resolves when this process may take much memory. Only one process may at a time. */
function grant(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  granted = resolve
  process.send?.({ ok: 'needs_memory' } satisfies DecoderEvent)
  return promise
}

interface FfmpegDecoders {
  readonly ffmpeg: FFmpeg
  readonly decodeVideo: typeof decodeVideo
  readonly decodeAudio: typeof decodeAudio
}

interface DocumentDecoders {
  readonly pdfium: Pdfium
  readonly readDocument: typeof readDocument
  readonly renderPage: typeof renderPage
}

async function decode(task: DecodeTask<ByteSource>): Promise<DecodeResult> {
  await prepare(task.type)
  // If the process ends before this, the input is not at fault.
  process.send?.({ ok: 'begins' } satisfies DecoderEvent)
  if (task.type === 'image') return images!.decodeImage(task, grant)
  if (task.type === 'document' || task.type === 'page') {
    const isPdf = mediaType(task.data.read(0, HEAD_BYTES)) === 'application/pdf'
    if (!isPdf)
      return task.type === 'page' ? images!.decodeImage({ ...task, type: 'image' }, grant) : images!.readPictures(task)
    const { pdfium, readDocument, renderPage } = documents!
    return task.type === 'page' ? renderPage(pdfium, task) : readDocument(pdfium, task)
  }
  const { ffmpeg, decodeVideo, decodeAudio } = ffmpegDecoders!
  return task.type === 'video' ? decodeVideo(ffmpeg, task, grant) : decodeAudio(ffmpeg, task)
}

/** A failure of the server, not of the input. */
class Unavailable extends Error {}

/** Loads what the task needs, and confines the process if it is to be confined. */
async function prepare(type: DecodeTask['type']): Promise<void> {
  const confines = isToBeConfined()
  if (type === 'video' || type === 'audio') ffmpegDecoders ??= await loadFfmpegDecoders(type)
  if (LIBRARIES[type] === 'pdfium') documents ??= await loadDocuments()
  if (type === 'image' || LIBRARIES[type] === 'pdfium' || confines) images ??= await loadImages()
  // Node does it when a process exits, but this one is killed. It has parsed nothing yet.
  if (!isPrepared) flushCompileCache()
  isPrepared = true
  if (!confines || isConfined) return
  try {
    confine()
  } catch (cause) {
    throw new Unavailable('The decoder cannot be confined', { cause })
  }
  isConfined = true
}

async function loadImages(): Promise<typeof import('../image.ts')> {
  try {
    return await import('../image.ts')
  } catch (cause) {
    throw new Unavailable('The library that decodes images cannot be loaded', { cause })
  }
}

async function loadDocuments(): Promise<DocumentDecoders> {
  try {
    const { loadPdfium, ...decoders } = await import('../document.ts')
    return { pdfium: await loadPdfium(), ...decoders }
  } catch (cause) {
    throw new Unavailable('The library that decodes documents cannot be loaded', { cause })
  }
}

/** @throws InvalidMedia where FFmpeg is missing: this server rejects all input of this kind. */
async function loadFfmpegDecoders(type: 'video' | 'audio'): Promise<FfmpegDecoders> {
  const { isFFmpegInstalled } = await import('../ffmpeg-package.ts')
  if (!isFFmpegInstalled()) {
    throw new InvalidMedia(`This server does not support ${type} input: it was installed without FFmpeg`)
  }
  try {
    const [ffmpeg, { decodeVideo }, { decodeAudio }] = await Promise.all([
      import('../ffmpeg.ts').then(({ loadFFmpeg }) => loadFFmpeg()),
      import('../video.ts'),
      import('../audio.ts'),
    ])
    return { ffmpeg, decodeVideo, decodeAudio }
  } catch (cause) {
    throw new Unavailable('FFmpeg cannot be loaded, so videos and audio cannot be decoded', { cause })
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
  if (data.type === 'bytes') return memorySource(receive(data.length))
  try {
    const file = data.type === 'file' ? openSync(data.path, 'r') : receiveDescriptor(FILES_FD)
    return fileSource(file, data.length)
  } catch (cause) {
    throw new Unavailable('The file of an input cannot be opened', { cause })
  }
}

async function replyTo(task: DecodeTask<SentData>): Promise<DecodeReply> {
  try {
    using data = open(task.data)
    return { ok: true, result: await decode({ ...task, data }) }
  } catch (error) {
    if (error instanceof NoThread) return { ok: null, message: error.message, mayPass: true }
    if (error instanceof Unavailable) return { ok: null, message: error.message }
    if (error instanceof InvalidMedia) return { ok: false, message: error.message, code: error.code }
    return { ok: false, message: 'The file cannot be decoded', code: null }
  }
}

process.on('message', async (task: DecoderMessage) => {
  if (task.type === 'granted') return granted?.()
  const reply = await replyTo(task)
  // Otherwise PDFium's memory stays while the reply is copied and the next page is decoded.
  if (documents !== null) collectBuffers()
  process.send?.(reply)
})
// If this fails, the first task reports why.
if (process.argv.includes(PRELOADS)) loadImages().catch(() => {})
releaseMemoryWhenIdle()
endWithParent()
