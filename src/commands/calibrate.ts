import { ConfigError } from '../config/config.ts'
import { CONNECTION_HELP, CONNECTION_OPTIONS, chosenModel, findPlace } from './asking/connection.ts'
import { endWithUser, note, print } from './asking/screen.ts'
import { noFile, sortWords } from './asking/words.ts'
import { askBoxes } from './calibrating/ask-boxes.ts'
import { askExamples, type ExampleAsking } from './calibrating/ask-examples.ts'
import { type BoxExample, hasBoxes, isYolo, readCoco, readYolo, toBoxExample } from './calibrating/box-examples.ts'
import { BOX_BINS } from './calibrating/box-quality.ts'
import { boxesAsText, calibrateBoxes } from './calibrating/boxes.ts'
import { checkDiagrams, type Series, writeDiagrams } from './calibrating/diagrams.ts'
import { type Example, readLines, toExample } from './calibrating/examples.ts'
import {
  ANSWER_BINS,
  CALIBRATED_TYPES,
  type CalibratedType,
  type Judged,
  likeliest,
  type Quality,
  qualityOf,
} from './calibrating/judged.ts'
import { crossFitted, fitTemperatures } from './calibrating/temperature.ts'
import type { Command } from './command.ts'
import { readOptions } from './options.ts'
import { toTable } from './output.ts'
import { warn } from './warn.ts'

export const calibrate: Command = {
  help: `Usage: lookout calibrate [MODEL] EXAMPLES.jsonl | FOLDER [options]
       lookout calibrate [MODEL] --coco FILE [FOLDER] [options]

Asks a model questions whose answers are known, and fits its probabilities to how often it is right, so that a probability
of 0.8 is right in eight of ten cases. Prints the calibration before and after, and what to put into the card. Each line of
EXAMPLES.jsonl, or of examples.jsonl in FOLDER, names a picture beside that file, and a question. They give one
temperature for each type of question:

  {"file": "1.jpg", "instructions": "Is there a scratch?", "answer": true}
  {"file": "1.jpg", "instructions": "Which part is it?", "choices": ["lid", "base"], "answer": "lid"}
  {"file": "2.jpg", "instructions": "How dirty is it?", "levels": ["clean", "dusty", "dirty"], "answer": "dusty"}
  {"file": "2.jpg", "type": "count", "instructions": "How many screws are there?", "answer": 4}

or all boxes of some categories as [left, top, right, bottom] in pixels, which calibrate the confidence of detect:

  {"file": "1.jpg", "categories": ["screw", "nut"], "boxes": [{"mention": "screw", "box": [12, 40, 32, 71]}]}

It also reads boxes from a FOLDER in YOLO's format (data.yaml), and from a file in COCO's.

  --coco           a file in COCO's format; FOLDER has its pictures [the folder of the file]
  --json           print the figures and the field of the card as JSON
  -o, --output     a file (.svg, .png) for diagrams: accuracy by confidence, and for boxes also precision against recall
${CONNECTION_HELP}

lookout --help lists the settings.
`,
  run: fitTo,
}

/** With fewer examples of a type, there is a warning. */
const FEW = 100

async function fitTo(args: readonly string[]): Promise<void> {
  endWithUser()
  const options = {
    ...CONNECTION_OPTIONS,
    coco: { type: 'string' },
    json: { type: 'boolean' },
    output: { type: 'string', short: 'o' },
  } as const
  const { values, positionals } = readOptions(args, options, null)
  const place = await findPlace({ server: values.server, key: values.key })
  const sorted = await sortWords(positionals, { model: values.model ?? null, names: place.names, meaning: 'examples' })
  const [path, spare] = sorted.media
  if (sorted.text !== null) throw noFile(sorted.text)
  if (spare !== undefined) throw new ConfigError(`expected one file with examples, not '${path}' and '${spare}'`)
  const examples = await readAny(path ?? null, values.coco ?? null)
  const { json = false, output = null } = values
  if (output !== null)
    await checkDiagrams(
      output,
      ('boxes' in examples ? examples.boxes : examples.questions).map(({ file }) => file),
    )
  const model = chosenModel(place, sorted.model)

  await using opened = await place.open(model)
  const asking = {
    client: opened.client,
    model,
    onFile: (done: number, files: number) => {
      if (process.stderr.isTTY && files > 1) note(`${done}/${files} files`)
    },
  }
  if ('boxes' in examples) {
    const calibration = calibrateBoxes(await askBoxes(examples.boxes, asking), model)
    const { warnings, series, ...figures } = calibration
    await print(json ? `${JSON.stringify(figures)}\n` : boxesAsText(calibration))
    for (const warning of warnings) warn(warning)
    if (output !== null) await writeDiagrams(output, series, BOX_BINS)
  } else {
    const results = await fitTemperaturesTo(examples.questions, { ...asking, calibrated: false }, json)
    if (output !== null) await writeDiagrams(output, results.flatMap(seriesOf), ANSWER_BINS)
  }
}

/** @throws ConfigError */
async function readAny(
  path: string | null,
  coco: string | null,
): Promise<{ readonly boxes: readonly BoxExample[] } | { readonly questions: readonly Example[] }> {
  if (coco !== null) return { boxes: await readCoco(coco, path) }
  if (path === null) throw new ConfigError('expected examples, as in: lookout calibrate examples.jsonl')
  if (await isYolo(path)) return { boxes: await readYolo(path) }
  const lines = await readLines(path)
  return lines.some(hasBoxes) ? { boxes: lines.map(toBoxExample) } : { questions: lines.map(toExample) }
}

async function fitTemperaturesTo(
  examples: readonly Example[],
  asking: ExampleAsking,
  asJson: boolean,
): Promise<readonly Result[]> {
  const judged = await askExamples(examples, asking)
  if (judged.length < examples.length) {
    warn(`${examples.length - judged.length} of ${examples.length} questions got no answer, and are left out`)
  }
  if (judged.length === 0) throw new ConfigError(`'${asking.model}' answers none of the questions`)
  const results = CALIBRATED_TYPES.flatMap((type) => resultOf(type, judged))
  const temperature = Object.fromEntries(results.map(({ type, temperature }) => [type, temperature]))
  await print(asJson ? toJson(results, temperature) : toText(results, temperature))
  for (const { type, before } of results) {
    if (before.questions < FEW) warn(`${before.questions} examples of type ${type} are few: a few hundred are better`)
  }
  return results
}

interface Result {
  readonly type: CalibratedType
  readonly temperature: number
  /** Without a temperature. */
  readonly before: Quality
  /** With a temperature fitted on other files; null if there is only one file. */
  readonly after: Quality | null
  /** The answers without a temperature, and with one fitted on other files. */
  readonly judged: readonly Judged[]
  readonly others: readonly Judged[] | null
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
      judged: ofType,
      others,
    },
  ]
}

function seriesOf({ type, before, after, judged, others }: Result): readonly Series[] {
  const series = (isAfter: boolean, { ece, brier }: Quality, answers: readonly Judged[]): Series => {
    return { name: type, isAfter, rated: likeliest(answers), figures: { ECE: ece, BRIER: brier }, curve: null }
  }
  return [series(false, before, judged), ...(after && others ? [series(true, after, others)] : [])]
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
