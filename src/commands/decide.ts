import { stat } from 'node:fs/promises'
import { type LookoutClient, ServerError } from '../client/client.ts'
import { ConfigError } from '../config/config.ts'
import {
  CONNECTION_HELP,
  CONNECTION_OPTIONS,
  findPlace,
  isAboutInput,
  readWait,
  WAIT_HELP,
  WAIT_OPTION,
} from './asking/connection.ts'
import {
  MediaError,
  type Medium,
  mediaPart,
  openMedium,
  picturesIn,
  readStandardInput,
  sendMedia,
} from './asking/media.ts'
import { readPage } from './asking/numbers.ts'
import { endWithUser, note, print } from './asking/screen.ts'
import { readTarget, writeWhole } from './asking/targets.ts'
import { sortWords } from './asking/words.ts'
import type { Command } from './command.ts'
import { answerCsv, answerTable, type Decided, rankOf } from './deciding/answers.ts'
import { type QuestionFile, readQuestions } from './deciding/question-file.ts'
import { NO_MODEL } from './models/no-model.ts'
import { readOptions } from './options.ts'
import { warn } from './warn.ts'

const FORMATS = ['table', 'json', 'csv'] as const
type Format = (typeof FORMATS)[number]

export const decide: Command = {
  help: `Usage: lookout decide [MODEL] [FILE | FOLDER | -]... QUESTIONS.yaml | QUESTION [options]

Answers typed questions about each picture, video or sound, with probabilities. A folder stands for each picture in it, and -
for standard input, also a text. QUESTIONS.yaml has a list of questions, or a map with their names as keys:

  there: Is there a red circle?
  colour: {instructions: What colour is the heart?, choices: [red, purple]}
  size: {instructions: How big is the heart?, levels: [small, medium, large]}
  hearts: {type: count, instructions: How many hearts are there?}
  place: {type: box, instructions: heart}

One QUESTION in words is answered with yes or no.

  -o, --output     a .json or .csv file for the results, instead of printing them
  --format         table, json or csv [table, or what the name of the output says]
  --json           the same as --format json
  --page           which page of a TIFF, or frame of an animated picture, from 1
  --sort           the files in order of the first answer: the likeliest, or the highest score, first
${WAIT_HELP}
${CONNECTION_HELP}

lookout --help lists the settings.
`,
  async run(args) {
    endWithUser()
    await answer(args)
  },
}

/** What is asked about, which is opened in its turn: a folder may hold more than memory does. */
interface Input {
  readonly name: string
  open(): Promise<Medium | string>
}

async function answer(args: readonly string[]): Promise<void> {
  const { values, positionals } = readOptions(
    args,
    {
      ...CONNECTION_OPTIONS,
      ...WAIT_OPTION,
      output: { type: 'string', short: 'o' },
      format: { type: 'string' },
      json: { type: 'boolean' },
      page: { type: 'string' },
      sort: { type: 'boolean' },
    },
    null,
  )
  const target = values.output === undefined ? null : await readTarget(values.output)
  if (target !== null && target.kind !== 'data')
    throw new ConfigError(`-o ${target.path}: expected a .json or .csv file`)
  const format = readFormat(values.format, values.json ?? false, target?.ending ?? null)
  const wait = readWait(values.wait)
  const place = await findPlace({ server: values.server, key: values.key, isForProgram: values.json, wait })
  const files = positionals.filter((word) => /\.(ya?ml|json)$/i.test(word))
  const others = positionals.filter((word) => !files.includes(word))
  const sorted = await sortWords(others, { model: values.model ?? null, names: place.names, meaning: 'question' })
  const asked = await questionsIn(files, sorted.text)
  const { inputs, isSingle } = await collect(sorted.media, readPage(values.page))
  const model = sorted.model ?? place.names.ids[0]
  if (model === undefined) throw new ConfigError(NO_MODEL)

  await using opened = await place.open(model)
  const results: Decided[] = []
  let failures = 0
  for (const [index, input] of inputs.entries()) {
    if (inputs.length > 1 && process.stderr.isTTY) note(`${index + 1}/${inputs.length} ${input.name}`)
    try {
      results.push(await decideOne(opened.client, input, { model, questions: asked.questions }))
    } catch (error) {
      const inFile = error instanceof ServerError && error.param !== null ? asked.placeOf(error.param) : null
      if (inFile !== null) throw new ConfigError(`${inFile}: ${(error as Error).message}`)
      if (!(error instanceof MediaError || isAboutInput(error))) throw error
      const named = error instanceof MediaError ? error.message : `${input.name}: ${(error as Error).message}`
      if (isSingle) throw new ConfigError(named)
      failures++
      warn(named)
    }
  }
  if (values.sort) results.sort((a, b) => rankOf(b) - rankOf(a))
  const text = shown(results, asked, format)
  if (target === null) await print(text)
  else await writeWhole(target.path, text)
  if (failures > 0) throw new ConfigError(`${failures} of ${inputs.length} files could not be decided on`)
}

function readFormat(given: string | undefined, json: boolean, ending: 'json' | 'csv' | null): Format {
  const wanted = given ?? (json ? 'json' : (ending ?? 'table'))
  const format = FORMATS.find((name) => name === wanted)
  if (format === undefined) throw new ConfigError(`--format: expected table, json or csv, not '${wanted}'`)
  if (json && format !== 'json') throw new ConfigError('--format and --json: expected only one of them')
  if (ending !== null && format !== ending)
    throw new ConfigError(`-o: --format ${format} is not written to a .${ending} file`)
  return format
}

async function questionsIn(files: readonly string[], text: string | null): Promise<QuestionFile> {
  const [file, spare] = files
  if (spare !== undefined) throw new ConfigError(`expected one file with questions, not '${file}' and '${spare}'`)
  if (file !== undefined && text !== null) {
    throw new ConfigError(`expected questions in '${file}' or in words, not both: '${text}'`)
  }
  if (file !== undefined) return readQuestions(file)
  if (text === null) throw new ConfigError('expected questions, as in: lookout decide picture.jpg questions.yaml')
  return { questions: [{ type: 'predicate', instructions: text }], placeOf: () => null }
}

async function collect(
  words: readonly string[],
  page: number | null,
): Promise<{ inputs: readonly Input[]; isSingle: boolean }> {
  const inputs: Input[] = []
  let isSingle = words.length <= 1
  for (const word of words) {
    if (word === '-') {
      const piped = await readStandardInput(page)
      inputs.push({ name: '-', open: async () => piped })
    } else if ((await stat(word)).isDirectory()) {
      isSingle = false
      inputs.push(...(await picturesIn(word)).map((path) => ({ name: path, open: () => openMedium(path, page) })))
    } else {
      inputs.push({ name: word, open: () => openMedium(word, page) })
    }
  }
  if (inputs.length === 0) throw new ConfigError('expected a picture, as in: lookout decide picture.jpg questions.yaml')
  return { inputs, isSingle }
}

async function decideOne(client: LookoutClient, input: Input, body: object): Promise<Decided> {
  const medium = await input.open()
  if (typeof medium === 'string') return { file: input.name, answers: await client.decide({ ...body, input: medium }) }
  await using uploads = new AsyncDisposableStack()
  const [where] = await sendMedia([medium], client, uploads)
  const content = [mediaPart(medium, where!)]
  return { file: input.name, answers: await client.decide({ ...body, input: [{ role: 'user', content }] }) }
}

function shown(results: readonly Decided[], { questions }: QuestionFile, format: Format): string {
  switch (format) {
    case 'json':
      return results.length === 0 ? '[]\n' : `[\n${results.map((result) => JSON.stringify(result)).join(',\n')}\n]\n`
    case 'csv':
      return answerCsv(results, questions)
    case 'table':
      return results.length === 0 ? '' : answerTable(results, questions)
  }
}
