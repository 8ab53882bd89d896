import type { Socket } from 'node:net'
import { loadFFmpeg } from '../../decoding/ffmpeg.ts'
import { endWithParent, isToBeConfined } from '../../sandbox/confined-process.ts'
import { confine } from '../../sandbox/seccomp.ts'
import type { CameraEvent, CameraMessage, Received } from '../protocol.ts'
import { Camera, type CameraMemory } from './camera.ts'
import { ClipStore } from './clip-store.ts'
import { Login } from './digest.ts'
import { FrameStore } from './frame-store.ts'

/**
 * The process that speaks to cameras, over sockets that its parent has connected, and decodes what they send. It can open no
 * file and no connection of its own. It ends when its parent ends.
 */
const BEAT_MS = 500
/** Cameras that wait for another connection. */
const MOST_MEMORIES = 64

const ffmpeg = loadFFmpeg()
const frames = new FrameStore(ffmpeg)
const clips = new ClipStore(ffmpeg)
const send = (event: CameraEvent) => void process.send?.(event)
const cameras = new Map<number, Camera>()
const NOTHING: Readonly<Received> = { bytes: 0, frames: 0, pictures: 0 }
/** Since the last beat. */
const received: Received = { ...NOTHING }
/** What is known of cameras that want another connection, by what the parent calls them. */
const memories = new Map<number, CameraMemory>()

function open(message: Extract<CameraMessage, { type: 'open' }>, socket: Socket | undefined): void {
  const { camera: number, login: name, source, silenceMs } = message
  // The camera may have closed the connection already.
  if (socket === undefined) {
    send({ type: 'lost', camera: number, fault: 'unreachable' })
    return
  }
  const login = new Login(source.username ?? undefined, source.password ?? undefined)
  const memory = memories.get(name) ?? { login, picture: null }
  memories.delete(name)
  const camera = new Camera({
    ...{ number, name, source, memory, socket, silenceMs, ffmpeg, frames, received },
    send: (event) => {
      if (event.type === 'lost') {
        cameras.delete(number)
        if (event.fault === 'again') remember(name, memory)
        else frames.release(memory.picture)
      }
      send(event)
    },
  })
  cameras.set(number, camera)
}

function remember(name: number, memory: CameraMemory): void {
  memories.set(name, memory)
  if (memories.size > MOST_MEMORIES) forget(memories.keys().next().value!)
}

function forget(name: number): void {
  frames.release(memories.get(name)?.picture ?? null)
  memories.delete(name)
}

async function newest(name: number): Promise<Uint8Array | null> {
  const camera = [...cameras.values()].find((one) => one.name === name)
  return camera === undefined ? frames.jpeg(memories.get(name)?.picture ?? null) : camera.newest()
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
    case 'newest':
      return void answer(message.question, newest(message.login))
    case 'forget':
      return forget(message.login)
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
  if (camera === undefined) return
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

if (isToBeConfined()) confine({ takesSockets: true })
setInterval(() => {
  send({ type: 'beat', received: { ...received } })
  Object.assign(received, NOTHING)
}, BEAT_MS)
send({ type: 'ready' })
