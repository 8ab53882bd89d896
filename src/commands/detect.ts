import type { Detections } from '../client/answers.ts'
import type { LookoutClient } from '../client/client.ts'
import { ConfigError } from '../config/config.ts'
import { Palette } from '../drawing/palette.ts'
import { csvLine } from '../exports/csv.ts'
import type { Origin } from '../exports/detected-picture.ts'
import { version } from '../lib/version.ts'
import {
  CONNECTION_HELP,
  CONNECTION_OPTIONS,
  findPlace,
  readWait,
  WAIT_HELP,
  WAIT_OPTION,
} from './asking/connection.ts'
import { askEach, collectInputs, type Input, type Inputs } from './asking/inputs.ts'
import { isPicture, openPicture, type Picture, readStandardInput, sendMedia } from './asking/media.ts'
import { type PageWish, readNumber, readPage } from './asking/numbers.ts'
import { endWithUser, note, print } from './asking/screen.ts'
import { keepOriginals, planDrawings, readTarget, type Target, writeWhole } from './asking/targets.ts'
import { sortWords } from './asking/words.ts'
import type { Command } from './command.ts'
import { followClip, openClip, readClipOutput } from './detecting/clip.ts'
import { isFolderFormat, planLabels } from './detecting/label-folder.ts'
import { RATING_HELP, RATING_OPTIONS, readRating } from './detecting/rating.ts'
import {
  cocoText,
  detectionRows,
  noteUncalibrated,
  readCategories,
  type SearchedPicture,
  toMark,
} from './detecting/results.ts'
import { LOOKS, readTiling, type TilingValues } from './detecting/tiling.ts'
import { anyOf, readChoice, readOptions } from './options.ts'
import { toTable } from './output.ts'

const FORMATS = ['table', 'json', 'csv', 'coco', 'yolo', 'labelme'] as const
type Format = (typeof FORMATS)[number]

export const detect: Command = {
  help: `Usage: lookout detect [MODEL] FILE | FOLDER | - ... [CATEGORY,CATEGORY...] [options]

Finds objects of the categories in each picture; without categories, every object. - reads a picture from standard input.
Without a model, the first one that detects objects answers. Coordinates are pixels of the upright picture.

  -o, --output     where to write; can be given more than once:
                     a picture (.png, .jpg, .webp) with the boxes drawn, for one input picture
                     a folder, with a drawing of each picture, or with the files of --format yolo or labelme
                     a .json or .csv file for the results, instead of printing them
  --format         ${anyOf(FORMATS)} [table, or from the name of the output]
  --json           the same as --format json
  --page           which page of a TIFF, or frame of an animated picture, from 1
  --points         points instead of boxes
  --tiles          search tile by tile, for objects that are small in a large picture: auto, or the finest grid, such as 8x6
  --smallest       with --tiles auto: pixels of the smallest objects to find
  --looks          with --tiles: which objects to look at again, closer: ${anyOf(LOOKS)} [all]
  --think          let the model think first
  --tracks         follow objects through one video, and number them; --format is then table, json, csv, mot (MOTChallenge)
                   or cvat (CVAT for video), and -o a .json, .csv, .txt or .xml file
  --patience       seconds for which an object that is out of sight keeps its number [2]
  --fps            frames per second of the video, by which mot and cvat number frames [numbers the sampled frames in turn]
${RATING_HELP}
${WAIT_HELP}
${CONNECTION_HELP}

lookout --help lists the settings.
`,
  run: search,
}

interface Found extends Detections {
  readonly name: string
  readonly picture: Picture
}

async function search(args: readonly string[]): Promise<void> {
  endWithUser()
  const { values, positionals } = readOptions(
    args,
    {
      ...CONNECTION_OPTIONS,
      ...WAIT_OPTION,
      output: { type: 'string', short: 'o', multiple: true },
      format: { type: 'string' },
      json: { type: 'boolean' },
      page: { type: 'string' },
      points: { type: 'boolean' },
      tiles: { type: 'string' },
      smallest: { type: 'string' },
      looks: { type: 'string' },
      think: { type: 'boolean' },
      tracks: { type: 'boolean' },
      patience: { type: 'string' },
      fps: { type: 'string' },
      ...RATING_OPTIONS,
    },
    null,
  )
  if (values.tracks) return await track(positionals, values)
  for (const option of ['patience', 'fps'] as const) {
    if (values[option] !== undefined) throw new ConfigError(`--${option}: it needs --tracks`)
  }
  const targets = await Promise.all((values.output ?? []).map(readTarget))
  const rating = readRating(values)
  const isRated = rating !== null
  const kind = { isPoints: values.points ?? false, isRated }
  const outputs = sortTargets(targets, readFormat(values.format, values.json ?? false), kind)
  const tiling = readTiling(values)
  const wait = readWait(values.wait)
  const place = await findPlace({ server: values.server, key: values.key, isForProgram: values.json, wait })
  const { media, text, ...named } = await sortWords(positionals, {
    model: values.model ?? null,
    names: place.names,
    meaning: 'categories',
  })
  const collected = await collect(media, readPage(values.page))
  const { inputs } = collected
  const categories = readCategories(text ?? '')
  const names = inputs.map(({ name }) => name)
  const { format, labels } = outputs
  const writeLabels = labels !== null && isFolderFormat(format) ? planLabels(format, labels, names) : null
  const drawings = outputs.drawing === null ? [] : planDrawings(outputs.drawing, names)
  const paths = [...drawings.map(({ path }) => path), ...(outputs.data === null ? [] : [outputs.data])]
  await keepOriginals(paths, names)

  const model = named.model ?? place.detector
  await using opened = await place.open(model)
  const options = {
    ...(model === null ? {} : { model }),
    ...(categories.length === 0 ? {} : { categories }),
    config: {
      output: values.points ? 'point' : 'box',
      enable_thinking: values.think ?? false,
      ...rating,
      ...tiling,
    },
  }
  const results: SearchedPicture[] = []
  const palette = new Palette()
  for (const category of categories) palette.of(category)
  const failure = await askEach(collected, 'pictures could not be searched', async (input, index) => {
    const { picture, ...found } = await searchOne(opened.client, input, options)
    results.push({ ...found, ...picture.size })
    const drawing = drawings[index]
    if (drawing === undefined) return
    const marks = found.detections.map(toMark)
    const { drawMarks } = await import('../drawing/draw.ts')
    await writeWhole(drawing.path, await drawMarks(await picture.shown(), marks, drawing.format, palette))
  })
  const origin = { asked: categories, model, version: await version(), date: new Date() }
  if (writeLabels !== null) await writeLabels(results, origin)
  else await report(results, names, origin, outputs)
  noteUncalibrated(results)
  if (failure !== null) throw failure
}

/** Options that cannot be combined with tracks. */
const ALONE = ['page', 'points', 'tiles', 'smallest', 'looks', 'confidence', 'thorough', 'min-confidence'] as const

async function track(
  positionals: readonly string[],
  values: Partial<
    Record<'server' | 'key' | 'wait' | 'model' | 'format' | 'patience' | 'fps' | 'page' | 'min-confidence', string>
  > &
    TilingValues &
    Partial<Record<'json' | 'points' | 'think' | 'confidence' | 'thorough', boolean>> & { readonly output?: string[] },
): Promise<void> {
  for (const option of ALONE) {
    if (values[option]) throw new ConfigError(`--${option}: it cannot be combined with --tracks`)
  }
  const patience = readNumber(values.patience, '--patience', { min: 0, max: 60 })
  const fps = readNumber(values.fps, '--fps', { min: 0.01, max: 1000 })
  const wait = readWait(values.wait)
  const place = await findPlace({ server: values.server, key: values.key, isForProgram: values.json, wait })
  const words = { model: values.model ?? null, names: place.names, meaning: 'categories' }
  const { media, text, ...named } = await sortWords(positionals, words)
  const clip = await openClip(media)
  const format = values.json ? 'json' : values.format
  const output = await readClipOutput(clip.name, { format, outputs: values.output ?? [] })
  const model = named.model ?? place.detector
  await using opened = await place.open(model)
  const categories = readCategories(text ?? '')
  const request = {
    ...(model === null ? {} : { model }),
    ...(categories.length === 0 ? {} : { categories }),
    config: { enable_thinking: values.think ?? false },
  }
  await followClip(clip, opened.client, { file: clip.name, request, patience, fps, ...output })
}

function readFormat(given: string | undefined, json: boolean): Format | null {
  const format = readChoice(given, '--format', FORMATS)
  if (format === undefined) return json ? 'json' : null
  if (json && format !== 'json') throw new ConfigError('--format and --json: expected only one of them')
  return format
}

interface Outputs {
  readonly format: Format
  readonly isPoints: boolean
  readonly isRated: boolean
  /** Null: standard output. */
  readonly data: string | null
  readonly labels: string | null
  readonly drawing: Exclude<Target, { kind: 'data' }> | null
}

function sortTargets(
  targets: readonly Target[],
  wanted: Format | null,
  { isPoints, isRated }: Pick<Outputs, 'isPoints' | 'isRated'>,
): Outputs {
  const [data, spareData] = targets.filter((target) => target.kind === 'data')
  const format = wanted ?? data?.ending ?? 'table'
  const folders = targets.filter(({ kind }) => kind === 'folder')
  const labels = isFolderFormat(format) ? folders.shift() : undefined
  const [drawing, spareDrawing] = [...targets.filter((target) => target.kind === 'picture'), ...folders] as (
    | Exclude<Target, { kind: 'data' }>
    | undefined
  )[]
  const spare = spareData ?? spareDrawing
  if (spare) throw new ConfigError(`-o ${spare.path}: another -o is of the same kind`)
  if (isFolderFormat(format) && labels === undefined) {
    throw new ConfigError(`--format ${format} writes one file for each picture: add a folder, such as -o labels/`)
  }
  const ending = format === 'csv' ? 'csv' : 'json'
  if (data && (format === 'table' || isFolderFormat(format) || data.ending !== ending)) {
    throw new ConfigError(`-o ${data.path}: --format ${format} is not written to a .${data.ending} file`)
  }
  if (isPoints && (format === 'coco' || format === 'yolo')) {
    throw new ConfigError(`--points: --format ${format} has boxes only`)
  }
  return { format, isPoints, isRated, data: data?.path ?? null, labels: labels?.path ?? null, drawing: drawing ?? null }
}

async function collect(words: readonly string[], page: PageWish): Promise<Inputs<Picture>> {
  const { inputs, isSingle } = await collectInputs(words, {
    file: (path) => openPicture(path, page),
    piped: async () => {
      const piped = await readStandardInput(page)
      if (typeof piped === 'string' || !isPicture(piped)) throw new ConfigError('standard input is not a picture')
      return { name: piped.name, open: async () => piped }
    },
  })
  const [first] = inputs
  if (first === undefined) throw new ConfigError('expected a picture, as in: lookout detect picture.jpg cat,dog')
  if (!isSingle) return { inputs, isSingle }
  // An error in the only picture is reported before a model is loaded.
  const picture = await first.open()
  return { inputs: [{ name: first.name, open: async () => picture }], isSingle }
}

async function searchOne(client: LookoutClient, input: Input<Picture>, options: object): Promise<Found> {
  const picture = await input.open()
  await using uploads = new AsyncDisposableStack()
  const [sent] = await sendMedia([picture], client, uploads)
  const found = await client.detect({ ...options, media: { type: 'image', image_url: sent!.url } })
  const left = found.tiles_left ? `, and ${found.tiles_left} tiles were not searched` : ''
  if (found.finish_reason !== 'complete')
    note(`${input.name}: the answer was cut off${left}, so objects may be missing`)
  return { name: input.name, picture, ...found }
}

async function report(
  results: readonly SearchedPicture[],
  names: readonly string[],
  origin: Origin,
  outputs: Outputs,
): Promise<void> {
  const { format, data } = outputs
  const text = format === 'coco' ? cocoText(results, names, origin) : toText(results, outputs)
  if (data === null) await print(text)
  else await writeWhole(data, text)
  if (format === 'table' && results.every(({ detections }) => detections.length === 0)) note('nothing was found')
}

function toText(results: readonly SearchedPicture[], { format, ...columns }: Outputs): string {
  if (format === 'json') {
    const items = results.map(({ name, ...result }) => JSON.stringify({ file: name, ...result }))
    return items.length === 0 ? '[]\n' : `[\n${items.join(',\n')}\n]\n`
  }
  const [head, ...rows] = detectionRows(results, columns) as [string[], ...string[][]]
  if (format === 'csv') return [head, ...rows].map(csvLine).join('')
  return toTable(
    head.map((title) => title.toUpperCase()),
    rows.filter(([, label]) => label !== ''),
  )
}
