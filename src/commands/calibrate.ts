import { ConfigError } from '../config/config.ts'
import { CONNECTION_HELP, CONNECTION_OPTIONS, chosenModel, findPlace } from './asking/connection.ts'
import { endWithUser, note, print } from './asking/screen.ts'
import { sortWords } from './asking/words.ts'
import { askExamples } from './calibrating/ask-examples.ts'
import { readExamples } from './calibrating/examples.ts'
import { CALIBRATED_TYPES, type CalibratedType, type Judged, type Quality, qualityOf } from './calibrating/judged.ts'
import { crossFitted, fitTemperatures } from './calibrating/temperature.ts'
import type { Command } from './command.ts'
import { readOptions } from './options.ts'
import { toTable } from './output.ts'
import { warn } from './warn.ts'

export const calibrate: Command = {
  help: `Usage: lookout calibrate [MODEL] EXAMPLES.jsonl | FOLDER [options]

Asks a model questions whose answers are known, and fits one temperature for each type of question, so that what it answers
with a probability of 0.8 is right in eight of ten cases. Prints how good it is before and after, and what to put into the
card. Each line of EXAMPLES.jsonl, or of examples.jsonl in FOLDER, is a question about a picture next to it:

  {"file": "1.jpg", "instructions": "Is there a scratch?", "answer": true}
  {"file": "1.jpg", "instructions": "Which part is it?", "choices": ["lid", "base"], "answer": "lid"}
  {"file": "2.jpg", "instructions": "How dirty is it?", "levels": ["clean", "dusty", "dirty"], "answer": "dusty"}
  {"file": "2.jpg", "type": "count", "instructions": "How many screws are there?", "answer": 4}

  --json           print the figures and the field of the card as JSON
${CONNECTION_HELP}

lookout --help lists the settings.
`,
  run: fitTo,
}

/** Fewer examples of a type say little. */
const FEW = 100

async function fitTo(args: readonly string[]): Promise<void> {
  endWithUser()
  const { values, positionals } = readOptions(args, { ...CONNECTION_OPTIONS, json: { type: 'boolean' } }, null)
  const place = await findPlace({ server: values.server, key: values.key })
  const sorted = await sortWords(positionals, { model: values.model ?? null, names: place.names, meaning: 'examples' })
  const [path, spare] = sorted.media
  if (sorted.text !== null) throw new ConfigError(`there is no file '${sorted.text}'`)
  if (spare !== undefined) throw new ConfigError(`expected one file with examples, not '${path}' and '${spare}'`)
  if (path === undefined) throw new ConfigError('expected examples, as in: lookout calibrate examples.jsonl')
  const examples = await readExamples(path)
  const model = chosenModel(place, sorted.model)

  await using opened = await place.open(model)
  const judged = await askExamples(examples, {
    client: opened.client,
    model,
    calibrated: false,
    onFile: (done, files) => {
      if (process.stderr.isTTY && files > 1) note(`${done}/${files} files`)
    },
  })
  if (judged.length < examples.length) {
    warn(`${examples.length - judged.length} of ${examples.length} questions got no answer, and are left out`)
  }
  if (judged.length === 0) throw new ConfigError(`'${model}' answers none of the questions`)
  const results = CALIBRATED_TYPES.flatMap((type) => resultOf(type, judged))
  const temperature = Object.fromEntries(results.map(({ type, temperature }) => [type, temperature]))
  await print(values.json ? toJson(results, temperature) : toText(results, temperature))
  for (const { type, before } of results) {
    if (before.questions < FEW) warn(`${before.questions} examples of type ${type} are few: a few hundred are better`)
  }
}

interface Result {
  readonly type: CalibratedType
  readonly temperature: number
  /** As the model gives them. */
  readonly before: Quality
  /** With a temperature fitted on other files; null where there is only one file. */
  readonly after: Quality | null
}

function resultOf(type: CalibratedType, judged: readonly Judged[]): readonly Result[] {
  const ofType = judged.filter((one) => one.type === type)
  if (ofType.length === 0) return []
  const others = crossFitted(ofType)
  return [
    {
      type,
      temperature: fitTemperatures(ofType)[type],
      before: qualityOf(ofType),
      after: others === null ? null : qualityOf(others),
    },
  ]
}

function toText(results: readonly Result[], temperature: object): string {
  const head = ['TYPE', 'QUESTIONS', 'RIGHT', 'BRIER', 'AFTER', 'ECE', 'AFTER', 'TEMPERATURE']
  const rows = results.map(({ type, temperature, before, after }) => [
    type,
    String(before.questions),
    before.accuracy.toFixed(3),
    before.brier.toFixed(3),
    after?.brier.toFixed(3) ?? '-',
    before.ece.toFixed(3),
    after?.ece.toFixed(3) ?? '-',
    temperature.toFixed(2),
  ])
  return `${toTable(head, rows)}
Put this into the model's card:

  "decision": ${JSON.stringify({ temperature })}
`
}

function toJson(results: readonly Result[], temperature: object): string {
  const types = Object.fromEntries(results.map(({ type, before, after }) => [type, { before, after }]))
  return `${JSON.stringify({ decision: { temperature }, types })}\n`
}
