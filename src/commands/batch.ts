import { glob, stat } from 'node:fs/promises'
import { dirname, extname, resolve } from 'node:path'
import { errorLine } from '../batches/output-writer.ts'
import type { LookoutClient } from '../client/client.ts'
import { ConfigError } from '../config/config.ts'
import { csvLine } from '../exports/csv.ts'
import type { Origin } from '../exports/detected-picture.ts'
import { version } from '../lib/version.ts'
import {
  CONNECTION_HELP,
  CONNECTION_OPTIONS,
  type ConnectionOptions,
  readWait,
  WAIT_HELP,
  WAIT_OPTION,
} from './asking/connection.ts'
import { openPicture, picturesIn, sendMedia } from './asking/media.ts'
import { readNumber } from './asking/numbers.ts'
import { checkWritable, keepOriginals, writeWhole } from './asking/targets.ts'
import { findModel, noFile } from './asking/words.ts'
import { compareResults } from './batching/compare-results.ts'
import { type Input, openJournal } from './batching/journal.ts'
import { openRequests } from './batching/request-file.ts'
import { kindOfLines, openResults } from './batching/result-files.ts'
import { prepareRun, sayFailures } from './batching/run.ts'
import type { Command } from './command.ts'
import { isFolderFormat, planLabels } from './detecting/label-folder.ts'
import { RATING_HELP, RATING_OPTIONS, readRating } from './detecting/rating.ts'
import { cocoText, detectionRows, noteUncalibrated, readCategories, type SearchedPicture } from './detecting/results.ts'
import { NO_MODEL } from './models/no-model.ts'
import { anyOf, readChoice, readOptions } from './options.ts'

const FORMATS = ['coco', 'yolo', 'labelme', 'jsonl', 'csv'] as const
type Format = (typeof FORMATS)[number]
const BY_ENDING: Readonly<Record<string, Format>> = { '.json': 'coco', '.jsonl': 'jsonl', '.csv': 'csv', '': 'yolo' }

const DEFAULT_JOBS = 4
const UNRATED = '--confidence, --thorough and --min-confidence need --detect'

export const batch: Command = {
  help: `Usage: lookout batch FILE | FOLDER | PATTERN ... --detect CATEGORY,CATEGORY... -o OUTPUT [options]
       lookout batch FILE | FOLDER | PATTERN ... --ask QUESTION -o OUTPUT [options]
       lookout batch REQUESTS.jsonl -o OUTPUT.jsonl [--against OLDER.jsonl ...] [options]
       lookout batch RESULTS.jsonl ... --against OLDER.jsonl ... [--json]

Finds objects in many pictures, asks the same question about each, or sends the requests of a file for /v1/batches. On a
server, a batch has lower priority than other requests. You can stop it at any time: the same command with the same
output resumes it and retries what failed.

  --detect         categories of objects; '' for every object
  --ask            a question
${RATING_HELP}
  -o, --output     a file that ends with .json (COCO), .jsonl or .csv, or a folder (YOLO)
  --format         ${anyOf(FORMATS)} [from the name of the output]
  --jobs           how many pictures or requests to process at the same time [${DEFAULT_JOBS}]
  --against        compare the results with an older .jsonl output: exit code 0 if all are the same, 1 if not
  --json           print the comparison as JSON Lines
${WAIT_HELP}
${CONNECTION_HELP}

lookout --help lists the settings.
`,
  async run(args) {
    const { values, positionals } = readOptions(args, OPTIONS, null)
    if (values.json && values.against === undefined) {
      throw new ConfigError('--json is for a comparison: --against is missing')
    }
    if (values.detect === undefined && readRating(values) !== null) throw new ConfigError(UNRATED)
    using older = values.against === undefined ? null : await openResults(values.against)
    const kind = values.detect === undefined && values.ask === undefined ? await kindOf(positionals) : null
    let failure: string | null = null
    if (kind !== 'results') failure = await (kind === 'requests' ? answer : label)(values, positionals)
    else if (older === null) throw new ConfigError(`${positionals[0]} has results: name older ones with --against`)
    else if (values.output !== undefined) {
      throw new ConfigError(`-o: ${positionals[0]} has results, so nothing is asked`)
    }
    if (older !== null) {
      using results = await openResults(kind === 'results' ? positionals : [values.output!])
      if (await compareResults(older, results, values.json ?? false)) process.exitCode = 1
    }
    if (failure !== null) throw new ConfigError(failure)
  },
}

const OPTIONS = {
  ...CONNECTION_OPTIONS,
  ...WAIT_OPTION,
  ...RATING_OPTIONS,
  detect: { type: 'string' },
  ask: { type: 'string' },
  output: { type: 'string', short: 'o' },
  format: { type: 'string' },
  jobs: { type: 'string' },
  against: { type: 'string', multiple: true },
  json: { type: 'boolean' },
} as const

type Options = ReturnType<typeof readOptions<typeof OPTIONS>>['values']

interface Output {
  readonly path: string
  readonly format: Format
}

type Task = { readonly detect: readonly string[]; readonly config?: object } | { readonly ask: string }

interface Answer {
  readonly name: string
  readonly answer: string
  readonly finish_reason: string | null
}

type Result = SearchedPicture | Answer

/** Asks about pictures. @returns a message about those without a result; null if there are none. */
async function label(values: Options, words: readonly string[]): Promise<string | null> {
  const task = readTask(values)
  const output = await readOutput(values, task)
  const { path, format } = output
  const jobs = readJobs(values)
  const inputs = await collect(words, path)
  const names = inputs.map(({ file }) => file)
  const writeLabels = isFolderFormat(format) ? planLabels(format, path, names) : null
  await keepOriginals([path], names)
  await keepOriginals([path], values.against ?? [], 'a file that is read')

  const run = await prepareRun(connectionOf(values), { inputs, jobs, noun: 'pictures' })
  const { place } = run
  const named = values.model === undefined ? null : await findModel(values.model, place.names)
  // A question goes to the first model, as in `lookout chat`; a search for objects to the first model that can do it.
  const model = named ?? ('ask' in task ? place.names.ids[0] : place.detector)
  if (model === undefined) throw new ConfigError(NO_MODEL)
  const journal = await openJournal(path, writeLabels !== null, { ...task, model })
  const failures = await run.ask(journal, model, (client, { file }) => ask(client, file, task, model))
  const done: Result[] = []
  for (const input of inputs) if (journal.has(input)) done.push((await journal.find(input)) as Result)
  if ('ask' in task) await writeAnswers(done as readonly Answer[], output)
  else {
    const { detect: asked, config } = task
    const origin = { asked, model, version: await version(), date: new Date() }
    const pictures = done as readonly SearchedPicture[]
    if (writeLabels !== null) await writeLabels(pictures, origin)
    else await writeDetections(pictures, names, origin, { ...output, isRated: config !== undefined })
    noteUncalibrated(pictures)
  }
  await journal.close(failures.size === 0)
  return sayFailures(
    failures,
    inputs,
    'ask' in task ? 'pictures could not be asked about' : 'pictures could not be searched',
  )
}

/** Sends the requests of a file. @returns a message about those without a result; null if there are none. */
async function answer(values: Options, words: readonly string[]): Promise<string | null> {
  const [path, spare] = words as [string, string?]
  if (spare !== undefined) throw new ConfigError(`expected one file with requests, not '${path}' and '${spare}'`)
  const { path: output } = await readOutput(values, null)
  const jobs = readJobs(values)
  await keepOriginals([output], [path, ...(values.against ?? [])], 'a file that is read')
  using file = await openRequests(path, (await stat(path)).mtimeMs)

  const run = await prepareRun(connectionOf(values), { inputs: file.requests, jobs, noun: 'requests' })
  const { names } = run.place
  const model = values.model === undefined ? null : await findModel(values.model, names)
  const served = model ?? (file.model !== null && (await names.has(file.model)) ? file.model : null)
  const journal = await openJournal(output, false, { requests: file.endpoint, model })
  const failures = await run.ask(journal, served, (client, request) => file.answer(client, request, model))
  const lines = async function* () {
    for (const request of file.requests) {
      const failure = failures.get(request.file)
      const line =
        failure === undefined ? await journal.find(request) : errorLine(request.file, 'server_error', failure)
      yield `${line}\n`
    }
  }
  await writeWhole(output, lines())
  await journal.close(failures.size === 0)
  return sayFailures(failures, file.requests, 'requests were not answered')
}

function connectionOf({ server, key, wait }: Options): ConnectionOptions {
  return { server, key, priority: 'background', wait: readWait(wait) }
}

function readJobs({ jobs }: Options): number {
  return readNumber(jobs, '--jobs', { min: 1, max: 64, whole: true }) ?? DEFAULT_JOBS
}

/** What the lines of the first file are; null if it is a picture or a folder. */
async function kindOf([first]: readonly string[]): Promise<'requests' | 'results' | null> {
  const isFile = first !== undefined && (await stat(first).catch(() => null))?.isFile()
  return isFile ? kindOfLines(first) : null
}

function readTask({ detect, ask, ...values }: Options): Task {
  if ((detect === undefined) === (ask === undefined)) {
    throw new ConfigError(
      'expected either --detect or --ask, as in: lookout batch photos/ --detect cat,dog -o labels.json',
    )
  }
  if (ask !== undefined) {
    if (ask.trim() === '') throw new ConfigError('--ask: expected a question')
    return { ask }
  }
  const config = readRating(values)
  return { detect: readCategories(detect!), ...(config === null ? {} : { config }) }
}

/** @param task null for the requests of a file. */
async function readOutput({ output, format: wanted, against }: Options, task: Task | null): Promise<Output> {
  if (output === undefined || output === '') throw new ConfigError('-o: expected a file or a folder')
  const entry = await stat(output).catch(() => null)
  const isFolder = entry?.isDirectory() || /[/\\]$/.test(output)
  const ending = isFolder ? '' : extname(output).toLowerCase()
  const known = readChoice(wanted, '--format', FORMATS) ?? BY_ENDING[ending]
  if (known === undefined) {
    throw new ConfigError(`-o ${output}: expected a file that ends with .json, .jsonl or .csv, or a folder`)
  }
  if (isFolderFormat(known) !== (ending === '')) {
    throw new ConfigError(
      isFolderFormat(known)
        ? `--format ${known} writes one file for each picture: -o must be a folder, not ${output}`
        : `-o ${output}: --format ${known} is written to a file`,
    )
  }
  if ((task === null || against !== undefined) && known !== 'jsonl') {
    const what = task === null ? 'results of requests are' : 'what is compared is'
    throw new ConfigError(`-o ${output}: ${what} written as .jsonl`)
  }
  if (task !== null && 'ask' in task && known !== 'jsonl' && known !== 'csv') {
    throw new ConfigError(`-o ${output}: answers are written as .jsonl or .csv`)
  }
  await checkWritable(output, isFolderFormat(known) ? output : dirname(resolve(output)))
  return { path: output, format: known }
}

/**
 * The inputs: files, the pictures in folders, and matches of patterns that no shell has expanded.
 * @param output is left out, because a pattern may match what the same command wrote before.
 */
async function collect(words: readonly string[], output: string): Promise<readonly Input[]> {
  const isOwn = (name: string) => resolve(name) === resolve(output)
  const files: string[] = []
  for (const word of words) {
    const entry = await stat(word).catch(() => null)
    if (entry?.isDirectory()) {
      const pictures = picturesIn(word).catch((error) => {
        if (!isOwn(word)) throw error
        return []
      })
      files.push(...(await pictures))
    } else if (entry !== null) files.push(word)
    else {
      const found = /[*?[{]/.test(word) ? await matching(word) : []
      if (found.length === 0) throw noFile(word)
      files.push(...found.sort(new Intl.Collator('en', { numeric: true }).compare))
    }
  }
  const own = files.find(isOwn)
  const isPicture = own !== undefined && (await openPicture(own).catch(() => null)) !== null
  const pictures = new Set(isPicture ? files : files.filter((file) => !isOwn(file)))
  if (pictures.size === 0)
    throw new ConfigError('expected pictures, as in: lookout batch photos/ --detect cat -o labels.json')
  return Promise.all(
    [...pictures].map(async (file) => {
      // A file that cannot be read is reported when its turn comes.
      const entry = await stat(file).catch(() => null)
      return { file, bytes: entry?.size ?? 0, changed: entry?.mtimeMs ?? 0 }
    }),
  )
}

/** The matches of a pattern, without folders, whose contents are not searched. */
async function matching(pattern: string): Promise<string[]> {
  const found: string[] = []
  for await (const path of glob(pattern)) {
    const entry = await stat(path).catch(() => null)
    if (!entry?.isDirectory()) found.push(path)
  }
  return found
}

async function ask(client: LookoutClient, name: string, task: Task, model: string | null): Promise<Result> {
  const picture = await openPicture(name)
  await using uploads = new AsyncDisposableStack()
  const [sent] = await sendMedia([picture], client, uploads)
  if ('ask' in task) {
    const content = [sent!.part, { type: 'text', text: task.ask }]
    const reply = await client.chat({ model, messages: [{ role: 'user', content }] }, null)
    return { name, answer: reply.content, finish_reason: reply.finishReason }
  }
  const { detect: categories, ...rated } = task
  const found = await client.detect({
    ...(model === null ? {} : { model }),
    ...(categories.length === 0 ? {} : { categories }),
    media: { type: 'image', image_url: sent!.url },
    ...rated,
  })
  return { name, ...picture.size, ...found }
}

async function writeAnswers(answers: readonly Answer[], { path, format }: Output): Promise<void> {
  const rows = answers.map(({ name, answer, finish_reason }) => ({ file: name, answer, finish_reason }))
  const csv = () => [['file', 'answer'], ...rows.map(({ file, answer }) => [file, answer])].map(csvLine).join('')
  await writeWhole(path, format === 'csv' ? csv() : jsonLines(rows))
}

/** @param names of all pictures, including those without a result. */
async function writeDetections(
  pictures: readonly SearchedPicture[],
  names: readonly string[],
  origin: Origin,
  { path, format, isRated }: Output & { readonly isRated: boolean },
): Promise<void> {
  if (format === 'coco') await writeWhole(path, cocoText(pictures, names, origin))
  else if (format === 'csv')
    await writeWhole(path, detectionRows(pictures, { isPoints: false, isRated }).map(csvLine).join(''))
  else await writeWhole(path, jsonLines(pictures.map(({ name, ...picture }) => ({ file: name, ...picture }))))
}

function jsonLines(rows: readonly object[]): string {
  return rows.map((row) => `${JSON.stringify(row)}\n`).join('')
}
