import { flushCompileCache } from 'node:module'
import type { Socket } from 'node:net'
import { loadFFmpeg } from '../../decoding/ffmpeg.ts'
import { endWithParent, isToBeConfined } from '../../sandbox/confined-process.ts'
import { confine } from '../../sandbox/seccomp.ts'
import type { CameraEvent, CameraMessage, Received } from '../protocol.ts'
import { Camera } from './camera.ts'
import { CLOSED } from './camera-session.ts'
import { ClipStore } from './clip-store.ts'
import { FrameStore } from './frame-store.ts'

/**
 * The process that talks to cameras, over sockets that its parent has connected, and decodes what they send. It can
 * open no file and no connection of its own. It ends when its parent ends.
 */
const BEAT_MS = 500

const ffmpeg = loadFFmpeg()
const frames = new FrameStore(ffmpeg)
const clips = new ClipStore(ffmpeg)
const send = (event: CameraEvent) => void process.send?.(event)
const cameras = new Map<number, Camera>()
const NOTHING: Readonly<Received> = { bytes: 0, frames: 0, pictures: 0 }
/** Since the last beat. */
const received: Received = { ...NOTHING }

function open(message: Extract<CameraMessage, { type: 'open' }>, socket: Socket | undefined): void {
  const { camera: number, source, silenceMs } = message
  // The camera may have closed the connection already.
  if (socket === undefined) {
    send({ type: 'lost', camera: number, fault: 'unreachable', message: CLOSED })
    return
  }
  const camera = new Camera({
    ...{ number, source, socket, silenceMs, ffmpeg, frames, received },
    send: (event) => {
      if (event.type === 'lost') cameras.delete(number)
      send(event)
    },
  })
  cameras.set(number, camera)
}

async function answer(question: number, value: Promise<Extract<CameraEvent, { type: 'answer' }>['value']>) {
  send({ type: 'answer', question, value: await value.catch(() => null) })
}

process.on('message', (message: CameraMessage, socket: Socket | undefined) => {
  switch (message.type) {
    case 'open':
      return open(message, socket)
    case 'release':
      return frames.release(message.frame)
    case 'view':
      return void answer(message.question, frames.view(message.frame, message.target, message.region))
    case 'jpeg':
      return void answer(message.question, frames.jpeg(message.frame))
    case 'piece':
      return void answer(message.question, clips.piece(message.clip))
    case 'finish':
      return clips.finish(message.clip)
    case 'drop':
      return clips.drop(message.clip)
  }
  const camera = cameras.get(message.camera)
  if (message.type === 'record') {
    const recorded = camera && clips.record(message.clip, camera.clipSource, message.span)
    return void answer(message.question, recorded ?? Promise.resolve('stopped'))
  }
  if (message.type === 'newest') return void answer(message.question, camera?.newest() ?? Promise.resolve(null))
  if (message.type === 'attach' && camera === undefined) socket?.destroy()
  if (camera === undefined) return
  if (message.type === 'attach') return camera.attach(socket)
  if (message.type === 'close') {
    cameras.delete(message.camera)
    return camera.close()
  }
  if (message.type === 'follow') camera.followers.set(message.follower, message.pace)
  else if (message.type === 'leave') camera.followers.delete(message.follower)
  else camera.followers.want(message.follower)
  camera.update()
})
endWithParent()

// Node does it when a process exits, but this one is killed.
flushCompileCache()
if (isToBeConfined()) confine({ takesSockets: true })
setInterval(() => {
  send({ type: 'beat', received: { ...received } })
  Object.assign(received, NOTHING)
}, BEAT_MS)
send({ type: 'ready' })
