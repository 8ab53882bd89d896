import { createWriteStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import type { WatchEvent } from '../client/answers.ts'
import type { LookoutClient } from '../client/client.ts'
import { ServerError } from '../client/server-error.ts'
import { usualCameraType } from '../config/cameras.ts'
import { ConfigError } from '../config/config.ts'
import { makeFolder } from '../lib/make-folder.ts'
import {
  CONNECTION_HELP,
  CONNECTION_OPTIONS,
  chosenModel,
  findPlace,
  readWait,
  WAIT_HELP,
  WAIT_OPTION,
} from './asking/connection.ts'
import { eachOf } from './asking/inputs.ts'
import { openMedium, picturesIn } from './asking/media.ts'
import { readNumber } from './asking/numbers.ts'
import { note, print } from './asking/screen.ts'
import type { Command } from './command.ts'
import { type AskedQuestion, readQuestions } from './deciding/question-file.ts'
import { checkOperands, readOptions } from './options.ts'
import { untilStopped } from './until-stopped.ts'

const USUAL_FPS = 1
/** Length of a clip before the start of an event, and after it. */
const CLIP_SECONDS = 5

export const watch: Command = {
  help: `Usage: lookout watch rtsp://CAMERA QUESTIONS.yaml [options]
       lookout watch --folder FOLDER QUESTIONS.yaml [options]

Registers a watch and prints when events start and end: for a camera until Ctrl-C, for a folder of pictures in the order
of their names. Cameras are rtsp://user:password@host/path, http:// (MJPEG; single pictures if the path ends with .jpg,
and HLS with .m3u8), both over TLS as rtsps:// and https://, or the name of one in the server's configuration.
QUESTIONS.yaml has questions as for lookout decide; each can have a rule for its event:

  truck: {instructions: Is there a truck?, event: {above: 0.7, below: 0.4, for_seconds: 2, clear_seconds: 5}}

  --folder         the folder with the pictures
  --clips          a folder for clips of a camera, from ${CLIP_SECONDS} seconds before each start to ${CLIP_SECONDS} seconds after it
  --certificate    how to check a camera's certificate over TLS: verify, any, or sha256:FINGERPRINT [verify]
  --fps            looks per second [${USUAL_FPS}]
  --region         the part of each frame to look at, as TOP,LEFT,BOTTOM,RIGHT from 0 to 1: 0,0.5,1,1 is the right half
  --json           print events as JSON Lines
${WAIT_HELP}
${CONNECTION_HELP}

lookout --help lists the settings.
`,
  run,
}

async function run(args: readonly string[]): Promise<void> {
  const paths = { folder: { type: 'string' }, clips: { type: 'string' }, certificate: { type: 'string' } } as const
  const looks = { fps: { type: 'string' }, region: { type: 'string' } } as const
  const options = { ...paths, ...looks, json: { type: 'boolean' } } as const
  const { values, positionals } = readOptions(args, { ...CONNECTION_OPTIONS, ...WAIT_OPTION, ...options }, null)
  const { folder, clips } = values
  const names = folder === undefined ? ['CAMERA', 'QUESTIONS.yaml'] : ['QUESTIONS.yaml']
  checkOperands(positionals, names)
  if (folder !== undefined && !(await stat(folder).catch(() => null))?.isDirectory())
    throw new ConfigError(`${folder} is not a folder`)
  if (folder !== undefined && clips !== undefined) throw new ConfigError('--clips is for cameras')
  const source = folder === undefined ? cameraOf(positionals[0]!, values.certificate) : { type: 'push' }
  const fps = readNumber(values.fps, '--fps', { min: 0.05, max: 10 }) ?? USUAL_FPS
  const region = values.region === undefined ? null : regionOf(values.region)
  const asked = await readQuestions(positionals.at(-1)!)
  const wait = readWait(values.wait)
  const cameraHost = 'url' in source ? new URL(source.url).host : undefined
  const place = await findPlace({ server: values.server, key: values.key, isForProgram: values.json, wait, cameraHost })
  const model = chosenModel(place, values.model)
  const pictures = folder === undefined ? null : await picturesIn(folder)

  await using opened = await place.open(model)
  const { client } = opened
  const questions = asked.questions.map(named)
  const record = clips === undefined ? undefined : { before_seconds: CLIP_SECONDS, after_seconds: CLIP_SECONDS }
  if (clips !== undefined) await makeFolder(clips, 0o777)
  const body = { model, source, fps, ...(region && { region }), questions, record }
  const id = await client.createWatch(body, pictures === null).catch((error) => {
    const inFile = error instanceof ServerError && error.param !== null ? asked.placeOf(error.param) : null
    throw inFile === null ? error : new ConfigError(`${inFile}: ${error.message}`)
  })
  const json = values.json ?? false
  await untilStopped(async (signal) => {
    try {
      if (pictures === null) await follow(client, { id, json, signal }, clips)
      else await pushAll(client, { id, pictures, fps, json, signal })
    } finally {
      await client.deleteWatch(id)
    }
  })
}

/** The source in the form of the API. */
function cameraOf(given: string, certificate?: string) {
  if (!given.includes('://')) return { type: 'camera', camera: given }
  const url = URL.canParse(given) ? new URL(given) : null
  if (url === null && /^(?:rtsps?|https?):/i.test(given)) {
    throw new ConfigError('the address of the camera: expected a valid host and, optionally, a port of at most 65535')
  }
  const type = url && usualCameraType(url)
  if (url === null || type === null) {
    throw new ConfigError(
      `'${given.replace(/\/\/.*@/, '//')}': expected rtsp://, rtsps://, http://, https:// or the name of a camera`,
    )
  }
  const [username, password] = [url.username, url.password].map(decodeURIComponent)
  url.username = ''
  url.password = ''
  const login = { ...(username && { username }), ...(password && { password }) }
  return { type, url: url.href, ...login, ...(certificate !== undefined && { certificate }) }
}

/** @throws ConfigError */
function regionOf(given: string) {
  const sides = given.split(',')
  if (sides.length !== 4) throw new ConfigError(`--region: expected TOP,LEFT,BOTTOM,RIGHT, not '${given}'`)
  const [top, left, bottom, right] = sides.map((side) => readNumber(side.trim(), '--region', { min: 0, max: 1 }))
  return { top, left, bottom, right }
}

interface Following {
  readonly id: string
  readonly json: boolean
  readonly signal: AbortSignal
}

/** Prints the events of a camera. */
async function follow(client: LookoutClient, { id, json, signal }: Following, clips?: string): Promise<void> {
  note('the camera delivers; Ctrl-C ends the watch')
  for await (const event of client.watchEvents(id, signal)) {
    const { seq, clip } = event.data
    if (clips !== undefined && event.type === 'watch.event.clip' && clip?.status === 'available') {
      await pipeline(await client.watchClip(id, seq), createWriteStream(join(clips, `${clip.file_id}.mp4`)), { signal })
    }
    await printEvent(event, json)
  }
}

async function printEvent(event: WatchEvent, json: boolean, picture = ''): Promise<void> {
  const { question = '', reason, probability, started_at: started = '', ended_at: ended, clip } = event.data
  const share = typeof probability === 'number' ? probability.toFixed(3) : ''
  const words = [event.type.replace(/^watch\./, ''), question, reason, share, picture || (ended ?? started)]
  if (event.type === 'watch.event.clip') words.push(clip?.file_id ?? clip?.reason)
  await print(json ? `${JSON.stringify(event)}\n` : `${words.filter(Boolean).join('  ')}\n`)
}

interface Pushing extends Following {
  readonly pictures: readonly string[]
  readonly fps: number
}

async function pushAll(client: LookoutClient, { id, pictures, fps, json, signal }: Pushing): Promise<void> {
  let due = performance.now()
  let last = 0
  const inputs = pictures.map((name) => ({ name }))
  const failure = await eachOf(inputs, 'pictures could not be looked at', async ({ name }) => {
    const medium = await openMedium(name)
    await delay(Math.max(0, due - performance.now()), undefined, { signal })
    // A look may take longer than the interval between two.
    due = performance.now() + 1000 / fps
    const events = await client.pushFrame(id, await medium.blob(), last)
    for (const event of events) {
      last = event.data.seq
      await printEvent(event, json, name)
    }
  })
  signal.throwIfAborted()
  note(`${pictures.length} pictures, ${last} ${last === 1 ? 'event' : 'events'}`)
  if (failure !== null) throw failure
}

/** A question in a list may have no name; a watch needs one. */
function named(question: AskedQuestion): AskedQuestion {
  return typeof question.name === 'string' ? question : { ...question, name: question.instructions }
}
