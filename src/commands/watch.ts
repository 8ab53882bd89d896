import { stat } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import type { LookoutClient } from '../client/client.ts'
import { ServerError } from '../client/server-error.ts'
import { ConfigError } from '../config/config.ts'
import {
  CONNECTION_HELP,
  CONNECTION_OPTIONS,
  chosenModel,
  findPlace,
  readWait,
  WAIT_HELP,
  WAIT_OPTION,
} from './asking/connection.ts'
import { openMedium, picturesIn } from './asking/media.ts'
import { readNumber } from './asking/numbers.ts'
import { note, print } from './asking/screen.ts'
import type { Command } from './command.ts'
import { type AskedQuestion, readQuestions } from './deciding/question-file.ts'
import { readOptions } from './options.ts'
import { untilStopped } from './until-stopped.ts'

const USUAL_FPS = 1

export const watch: Command = {
  help: `Usage: lookout watch --folder FOLDER QUESTIONS.yaml [options]

Registers a watch, pushes the pictures of a folder in the order of their names, and prints when events start and end.
QUESTIONS.yaml has the questions of lookout decide; each may have the rule of its event:

  truck: {instructions: Is there a truck?, event: {above: 0.7, below: 0.4, for_seconds: 2, clear_seconds: 5}}

  --folder         the folder with the pictures
  --fps            pictures in a second, which is also how often the server looks [${USUAL_FPS}]
  --json           each event as a line of JSON
${WAIT_HELP}
${CONNECTION_HELP}

lookout --help lists the settings.
`,
  run,
}

async function run(args: readonly string[]): Promise<void> {
  const { values, positionals } = readOptions(
    args,
    {
      ...CONNECTION_OPTIONS,
      ...WAIT_OPTION,
      folder: { type: 'string' },
      fps: { type: 'string' },
      json: { type: 'boolean' },
    },
    ['QUESTIONS.yaml'],
  )
  const { folder } = values
  if (folder === undefined) throw new ConfigError('--folder is missing; see --help')
  if (!(await stat(folder).catch(() => null))?.isDirectory()) throw new ConfigError(`${folder} is not a folder`)
  const fps = readNumber(values.fps, '--fps', { min: 0.05, max: 10 }) ?? USUAL_FPS
  const asked = await readQuestions(positionals[0]!)
  const wait = readWait(values.wait)
  const place = await findPlace({ server: values.server, key: values.key, isForProgram: values.json, wait })
  const model = chosenModel(place, values.model)
  const pictures = await picturesIn(folder)

  await using opened = await place.open(model)
  const { client } = opened
  const body = { model, source: { type: 'push' }, fps, questions: asked.questions.map(named) }
  const id = await client.createWatch(body).catch((error) => {
    const inFile = error instanceof ServerError && error.param !== null ? asked.placeOf(error.param) : null
    throw inFile === null ? error : new ConfigError(`${inFile}: ${error.message}`)
  })
  await untilStopped(async (signal) => {
    try {
      await pushAll(client, { id, pictures, fps, json: values.json ?? false, signal })
    } finally {
      await client.deleteWatch(id)
    }
  })
}

interface Pushing {
  readonly id: string
  readonly pictures: readonly string[]
  readonly fps: number
  readonly json: boolean
  readonly signal: AbortSignal
}

async function pushAll(client: LookoutClient, { id, pictures, fps, json, signal }: Pushing): Promise<void> {
  const started = performance.now()
  let last = 0
  for (const [index, picture] of pictures.entries()) {
    const due = started + (index * 1000) / fps
    await delay(Math.max(0, due - performance.now()), undefined, { signal })
    const medium = await openMedium(picture)
    const events = await client.pushFrame(id, await medium.blob(), last)
    for (const event of events) {
      const { seq, question = '', reason, probability } = event.data
      last = seq
      const share = typeof probability === 'number' ? probability.toFixed(3) : ''
      const words = [event.type.replace(/^watch\./, ''), question, reason, share, picture]
      await print(json ? `${JSON.stringify(event)}\n` : `${words.filter(Boolean).join('  ')}\n`)
    }
  }
  note(`${pictures.length} pictures, ${last} ${last === 1 ? 'event' : 'events'}`)
}

/** A question in a list may have no name; a watch needs one. */
function named(question: AskedQuestion): AskedQuestion {
  return typeof question.name === 'string' ? question : { ...question, name: question.instructions }
}
