import { stat } from 'node:fs/promises'
import type { FinishedReply } from '../client/answers.ts'
import { ConfigError } from '../config/config.ts'
import { Palette } from '../drawing/palette.ts'
import type { MediaKind } from '../media/media-type.ts'
import { CONNECTION_HELP, CONNECTION_OPTIONS, chosenModel, findPlace } from './asking/connection.ts'
import { eachOf } from './asking/inputs.ts'
import { type Medium, openMedium, picturesIn, readStandardInput } from './asking/media.ts'
import { type PageWish, readNumber, readPage } from './asking/numbers.ts'
import { annotationsIn, type ReplyAnnotation } from './asking/reply-annotations.ts'
import { endWithUser, print } from './asking/screen.ts'
import { readTarget } from './asking/targets.ts'
import { sortWords } from './asking/words.ts'
import { converse, startChat } from './chatting/conversation.ts'
import { draw, planDrawing, type Question } from './chatting/drawing.ts'
import type { Command } from './command.ts'
import { readChoice, readOptions } from './options.ts'
import { JsonArray } from './output.ts'

const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high'] as const
const FORMATS = { points: 'point', boxes: 'box', polygons: 'polygon', clips: 'clip' } as const

export const chat: Command = {
  help: `Usage: lookout chat [MODEL] [FILE | FOLDER | -]... [QUESTION] [options]

Asks a model, and prints the reply as it arrives. Files are pictures, PDFs, videos and sounds, all for the same question.
For a folder, the question is asked about each picture separately. - reads standard input: a picture, PDF, video or sound,
or text that is appended to the question. Without a model, the first one answers. Without a question, a conversation
starts on the terminal.

  -o, --output     draw what the reply names on the picture: a file (.png, .jpg, .webp), or a folder for several
  --boxes, --points, --polygons, --clips
                   ask for places of this kind
  --system         instructions for the model
  --effort         how much to think: ${EFFORTS.join(', ')}
  --hide-thoughts  keep thoughts off the terminal
  --page           which page of a PDF or TIFF, or frame of an animated picture, from 1; of a PDF, all by default, or 1-3
  --audio          also listen to the sound of videos
  --max-tokens     most tokens of the reply
  --temperature    0 to 2 [0]
  --json           the whole reply as JSON, with places in pixels
${CONNECTION_HELP}

lookout --help lists the settings.
`,
  run: ask,
}

function readChatOptions(args: readonly string[]) {
  const { values, positionals: words } = readOptions(args, OPTIONS, null)
  const formats = (['points', 'boxes', 'polygons', 'clips'] as const).filter((name) => values[name])
  if (formats.length > 1) {
    throw new ConfigError(`expected only one of ${formats.map((name) => `--${name}`).join(' and ')}`)
  }
  const effort = readChoice(values.effort, '--effort', EFFORTS)
  const [format] = formats
  const vision = {
    ...(format === undefined ? {} : { annotation_format: FORMATS[format] }),
    ...(values.audio ? { enable_audio_in_video: true } : {}),
  }
  const maxTokens = readNumber(values['max-tokens'], '--max-tokens', { min: 1, max: 1_000_000, whole: true })
  const temperature = readNumber(values.temperature, '--temperature', { min: 0, max: 2 })
  return {
    values,
    words,
    page: readPage(values.page),
    body: {
      ...(maxTokens === undefined ? {} : { max_completion_tokens: maxTokens }),
      ...(temperature === undefined ? {} : { temperature }),
      ...(effort === undefined ? {} : { reasoning_effort: effort }),
      ...(Object.keys(vision).length === 0 ? {} : { vision_config: vision }),
    },
  }
}

const OPTIONS = {
  ...CONNECTION_OPTIONS,
  output: { type: 'string', short: 'o' },
  points: { type: 'boolean' },
  boxes: { type: 'boolean' },
  polygons: { type: 'boolean' },
  clips: { type: 'boolean' },
  system: { type: 'string' },
  effort: { type: 'string' },
  'hide-thoughts': { type: 'boolean' },
  page: { type: 'string' },
  audio: { type: 'boolean' },
  'max-tokens': { type: 'string' },
  temperature: { type: 'string' },
  json: { type: 'boolean' },
} as const

async function ask(args: readonly string[]): Promise<void> {
  endWithUser()
  const { values, words, page, body } = readChatOptions(args)
  const target = values.output === undefined ? null : await readTarget(values.output)
  const place = await findPlace({ server: values.server, key: values.key, isForProgram: values.json })
  const sorted = await sortWords(words, { model: values.model ?? null, names: place.names, meaning: 'question' })
  const { questions, text, isFolder } = await collect(sorted.media, sorted.text, page)
  const isDialogue = text === null && !isFolder && !values.json && process.stdin.isTTY && process.stdout.isTTY
  const asked = text ?? defaultQuestion(isFolder ? ['image'] : (await questions[0]!.open()).map(({ kind }) => kind))
  const drawing = target && (await planDrawing(target, questions, isFolder))
  const model = chosenModel(place, sorted.model)

  await using opened = await place.open(model)
  const array = values.json && isFolder ? new JsonArray() : null
  const palette = new Palette()
  const live = values.json ? null : { showsThoughts: !values['hide-thoughts'] && process.stderr.isTTY }
  const askOne = async (question: Question, index: number) => {
    const media = await question.open()
    if (isFolder && !values.json) await print(`${index === 0 ? '' : '\n'}${question.name}:\n`)
    await using chat = await startChat(opened.client, media, { model, ...body }, values.system)
    if (isDialogue) {
      return await converse(chat, live!, async ({ content }) => {
        const annotations = annotationsIn(content, media)
        // Most questions are not about places: the last drawing is kept.
        if (drawing && annotations.length > 0) await draw(media, annotations, drawing(index, media), palette)
      })
    }
    const reply = await chat.ask(asked, live)
    const annotations = annotationsIn(reply.content, media)
    if (values.json) {
      const result = toJson(model, media, reply, annotations)
      if (array) array.write([result])
      else await print(`${JSON.stringify(result, null, 2)}\n`)
    }
    if (drawing) await draw(media, annotations, drawing(index, media), palette)
  }
  if (!isFolder) return await askOne(questions[0]!, 0)
  const failure = await eachOf(questions, 'pictures could not be asked about', askOne)
  array?.end()
  if (failure !== null) throw failure
}

async function collect(words: readonly string[], text: string | null, page: PageWish) {
  const folders = []
  for (const word of words) if (word !== '-' && (await stat(word)).isDirectory()) folders.push(word)
  const piped = words.includes('-') ? await readStandardInput(page) : null
  const question = typeof piped === 'string' ? [text, piped].filter((part) => part !== null).join('\n\n') : text
  const [folder] = folders
  if (folder !== undefined) {
    if (words.length > (typeof piped === 'string' ? 2 : 1)) {
      throw new ConfigError('a folder is asked about picture by picture, so it must be the only file')
    }
    const pictures = await picturesIn(folder)
    const questions = pictures.map(
      (path): Question => ({ name: path, open: async () => [await openMedium(path, page)] }),
    )
    return { questions, text: question, isFolder: true }
  }
  const media: Medium[] = []
  for (const word of words) {
    if (word !== '-') media.push(await openMedium(word, page))
    else if (piped !== null && typeof piped !== 'string') media.push(piped)
  }
  const name = media.map((medium) => medium.name).join(', ')
  return {
    questions: [{ name, open: async () => media }] satisfies Question[],
    text: question,
    isFolder: false,
  }
}

function defaultQuestion(media: readonly MediaKind[]): string {
  const kinds = new Set(media)
  if (kinds.size === 0) {
    throw new ConfigError('expected a question, as in: lookout chat picture.jpg "What is in this image?"')
  }
  if (kinds.size > 1) throw new ConfigError('expected a question about these files')
  if (kinds.has('document')) return media.length === 1 ? 'What is in this document?' : 'What is in these documents?'
  if (kinds.has('image')) return media.length === 1 ? 'What is in this image?' : 'What is in these images?'
  return kinds.has('video') ? 'What happens in this video?' : 'What is said?'
}

function toJson(
  model: string,
  media: readonly Medium[],
  { content, reasoning, finishReason, usage }: FinishedReply,
  annotations: readonly ReplyAnnotation[],
): object {
  return {
    model,
    files: media.map(({ name }) => name),
    reply: content,
    ...(reasoning === '' ? {} : { thoughts: reasoning }),
    annotations,
    finish_reason: finishReason,
    usage,
  }
}
