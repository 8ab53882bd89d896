import type { LookoutClient } from '../client/client.ts'
import { ServerError } from '../client/server-error.ts'
import { ConfigError } from '../config/config.ts'
import {
  CONNECTION_HELP,
  CONNECTION_OPTIONS,
  chosenModel,
  findPlace,
  isAboutInput,
  readWait,
  WAIT_HELP,
  WAIT_OPTION,
} from './asking/connection.ts'
import { askEach, collectInputs, type Input, type Inputs } from './asking/inputs.ts'
import { type Medium, openMedium, readStandardInput, sendMedia } from './asking/media.ts'
import { type PageWish, readPage } from './asking/numbers.ts'
import { endWithUser, print } from './asking/screen.ts'
import { readTarget, writeWhole } from './asking/targets.ts'
import { sortWords } from './asking/words.ts'
import type { Command } from './command.ts'
import { answerCsv, answerTable, type Decided, rankOf } from './deciding/answers.ts'
import { type QuestionFile, readQuestions } from './deciding/question-file.ts'
import { readChoice, readOptions } from './options.ts'

const FORMATS = ['table', 'json', 'csv'] as const
type Format = (typeof FORMATS)[number]

export const decide: Command = {
  help: `Usage: lookout decide [MODEL] [FILE | FOLDER | -]... QUESTIONS.yaml | QUESTION [options]

Answers typed questions about each picture, video or sound, with probabilities. A folder stands for each picture in it, and -
for standard input, which can also be a text. QUESTIONS.yaml has a list of questions, or a map with their names as keys:

  there: Is there a red circle?
  colour: {instructions: What colour is the heart?, choices: [red, purple]}
  size: {instructions: How big is the heart?, levels: [small, medium, large]}
  hearts: {type: count, instructions: How many hearts are there?}
  place: {type: box, instructions: heart}

A single QUESTION in words gets a yes or no.

  -o, --output     a .json or .csv file for the results, instead of printing them
  --format         table, json or csv [table, or from the name of the output]
  --json           the same as --format json
  --page           which page of a PDF or TIFF, or frame of an animated picture, from 1; of a PDF, all by default, or 1-3
  --sort           sort the files by the first answer: the likeliest, or the highest score, first
${WAIT_HELP}
${CONNECTION_HELP}

lookout --help lists the settings.
`,
  run: answer,
}

async function answer(args: readonly string[]): Promise<void> {
  endWithUser()
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
  const inputs = await collect(sorted.media, readPage(values.page))
  const model = chosenModel(place, sorted.model)

  await using opened = await place.open(model)
  const results: Decided[] = []
  const failure = await askEach(inputs, 'files could not be decided on', async (input) => {
    const decided = await decideOne(opened.client, input, { model, questions: asked.questions }).catch((error) => {
      const isInFile = error instanceof ServerError && error.param !== null && !isAboutInput(error)
      const inFile = isInFile ? asked.placeOf(error.param!) : null
      throw inFile === null ? error : new ConfigError(`${inFile}: ${error.message}`)
    })
    results.push(decided)
  })
  if (values.sort) results.sort((a, b) => rankOf(b) - rankOf(a))
  const text = shown(results, asked, format)
  if (target === null) await print(text)
  else await writeWhole(target.path, text)
  if (failure !== null) throw failure
}

function readFormat(given: string | undefined, json: boolean, ending: 'json' | 'csv' | null): Format {
  const format = readChoice(given, '--format', FORMATS) ?? (json ? 'json' : (ending ?? 'table'))
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

async function collect(words: readonly string[], page: PageWish): Promise<Inputs<Medium | string>> {
  const collected = await collectInputs<Medium | string>(words, {
    file: (path) => openMedium(path, page),
    piped: async () => {
      const piped = await readStandardInput(page)
      return { name: '-', open: async () => piped }
    },
  })
  if (collected.inputs.length > 0) return collected
  throw new ConfigError('expected a picture, as in: lookout decide picture.jpg questions.yaml')
}

async function decideOne(client: LookoutClient, input: Input<Medium | string>, body: object): Promise<Decided> {
  const medium = await input.open()
  if (typeof medium === 'string') return { file: input.name, answers: await client.decide({ ...body, input: medium }) }
  await using uploads = new AsyncDisposableStack()
  const [sent] = await sendMedia([medium], client, uploads)
  const content = [sent!.part]
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
