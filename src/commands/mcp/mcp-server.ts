import {
  type CallToolResult,
  type InputRequiredResult,
  McpServer,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { z } from 'zod'
import type { DecisionAnswer } from '../../client/answers.ts'
import { ServerError } from '../../client/server-error.ts'
import { ConfigError } from '../../config/config.ts'
import { AllowedMedia, isAddress } from './allowed-media.ts'
import { type Call, signalOf, tellProgress } from './call.ts'
import type { Eyes } from './eyes.ts'
import { type Folders, remembering } from './folders.ts'
import { serveResources } from './resources.ts'

const MOST_MEDIA = 16
const file = z
  .string()
  .min(1)
  .max(4096)
  .describe(
    'A path below an allowed folder, absolute or relative to the first one, as the tool list gives it, or an http(s) address.',
  )
const media = z
  .array(file)
  .min(1)
  .max(MOST_MEDIA)
  .describe('Pictures (PNG, JPEG, WebP, GIF, TIFF, AVIF, BMP, SVG), PDFs, videos (MP4, WebM, QuickTime) or sounds.')
const page = z
  .int()
  .min(1)
  .max(100_000)
  .optional()
  .describe(
    'Which page of a PDF or TIFF, or frame of an animation, from 1. By default the first; of a PDF, all. Only for a single file.',
  )
const text = z.string().min(1).max(20_000)
const complete = z.boolean().describe('False if the reply was cut off.')

const kind = z.enum(['image', 'video', 'audio', 'document'])
const side = z
  .int()
  .nullable()
  .describe('Size of the upright picture in pixels; null if its header does not say, and for other media.')

const probability = z.number()
/** Limits of the server. */
const MOST_LEVELS = 10
const question = z
  .strictObject({
    question: text.describe('The question in words, such as: Is the screw tight?'),
    options: z
      .array(z.string().min(1).max(500))
      .min(2)
      .max(255)
      .refine((options) => new Set(options).size === options.length, 'expected options that differ')
      .optional()
      .describe(`Omitted for a yes-or-no question; at most ${MOST_LEVELS} if they are ordered.`),
    ordered: z
      .boolean()
      .optional()
      .describe('Whether the options are levels in ascending order, so that the answer is a score from 0.'),
  })
  .refine(({ options, ordered }) => !ordered || (options !== undefined && options.length <= MOST_LEVELS), {
    path: ['options'],
    error: `expected 2 to ${MOST_LEVELS} options that are ordered`,
  })

const answer = z.object({
  answer: z
    .union([z.string(), z.boolean(), z.number()])
    .nullable()
    .describe('true for yes; for ordered options the expected level; null if the question could not be answered.'),
  confidence: probability,
  probabilities: z.array(z.object({ option: z.union([z.string(), z.boolean()]), probability })),
})

const INSTRUCTIONS =
  'Looks at pictures, videos and sounds for you, and lists the files that you may name. Coordinates are pixels of the upright picture, from its top left corner.'
/** No tool changes anything. */
const READ_ONLY = { readOnlyHint: true, idempotentHint: true, openWorldHint: false }

/** A server of the Model Context Protocol, whose tools look at media. */
export function createMcpServer(eyes: Eyes, allowed: Folders, version: string): McpServer {
  const server = new McpServer({ name: 'lookout', version }, { instructions: INSTRUCTIONS })
  const remembered = remembering(allowed)
  const respond = answerer((context) => remembered.folders(server, context))

  serveResources(server, remembered)

  server.registerTool(
    'list',
    {
      title: 'List pictures, videos and sounds',
      description: 'Lists the files that can be viewed, with their sizes, one page at a time.',
      inputSchema: z.strictObject({
        path: z
          .string()
          .min(1)
          .max(4096)
          .optional()
          .describe('A folder, or a pattern such as frames/**/*.{png,jpg}. All allowed folders by default.'),
        recursive: z
          .boolean()
          .optional()
          .describe('Whether to include its subfolders. True by default; a pattern says so with **.'),
        name: z.string().min(1).max(255).optional().describe('Only files whose names contain this.'),
        kind: kind.optional(),
        sort: z
          .enum(['name', 'newest'])
          .optional()
          .describe('By path, or the most recently changed first. By path by default.'),
        limit: z.int().min(1).max(200).optional().describe('Files on a page: 50 by default.'),
        cursor: z.string().max(10_000).optional().describe('Cursor from the previous page, with the same arguments.'),
      }),
      outputSchema: z.object({
        files: z.array(
          z.object({
            path: z.string().describe('As the other tools expect it.'),
            kind,
            width: side,
            height: side,
            bytes: z.int(),
            modified: z.string().describe('When the file was last changed.'),
          }),
        ),
        total: z.int().describe('Number of files on all pages.'),
        cursor: z.string().nullable().describe('Cursor of the next page; null on the last page.'),
        complete: z.boolean().describe('False if there are more files than could be searched: name a folder.'),
      }),
      annotations: READ_ONLY,
    },
    (
      { path = null, recursive = true, name: text = null, kind = null, sort = 'name', limit = 50, cursor = null },
      context,
    ) =>
      respond(context, [path ?? ''], undefined, async ({ media, signal }) => {
        const page = await media.list({ path, recursive, text, kind, sort, limit, cursor }, signal)
        const listed = {
          files: page.files.map(({ name, kind, size, byteLength, modified }) => ({
            path: name,
            kind,
            width: size?.width ?? null,
            height: size?.height ?? null,
            bytes: byteLength,
            modified: modified.toISOString(),
          })),
          total: page.total,
          cursor: page.cursor,
          complete: page.isComplete,
        }
        return { content: [{ type: 'text', text: JSON.stringify(listed) }], structuredContent: listed }
      }),
  )

  server.registerTool(
    'look',
    {
      title: 'Look at pictures, videos or sounds',
      description: 'Answers a question about pictures, videos or sounds in words. All of them belong to one question.',
      inputSchema: z.strictObject({ question: text, media, page }),
      outputSchema: z.object({ answer: z.string(), complete }),
      annotations: READ_ONLY,
    },
    ({ question, media, page }, context) =>
      respond(context, media, page, async (call) => {
        const seen = await eyes.look(call, question, media)
        return { content: [{ type: 'text', text: seen.answer }], structuredContent: seen }
      }),
  )

  server.registerTool(
    'detect',
    {
      title: 'Find objects',
      description:
        'Finds objects in a picture and says where they are, or follows them through a video. Without categories, it finds every object.',
      inputSchema: z.strictObject({
        image: file.describe('A picture or a video, as the other tools expect it.'),
        page,
        categories: z.array(z.string().min(1).max(400)).max(100).optional(),
        output: z.enum(['box', 'point']).optional().describe('Boxes by default.'),
        min_confidence: z
          .number()
          .min(0)
          .max(1)
          .optional()
          .describe(
            'Leaves out what is less likely to be right. With it, even with 0, each detection has a confidence.',
          ),
        draw: z.boolean().optional().describe('Whether to return the picture with the places drawn as well.'),
        tiles: z
          .boolean()
          .optional()
          .describe(
            'Whether to search tile by tile, for objects that are small in a large picture: takes much longer.',
          ),
      }),
      outputSchema: z.object({
        detections: z.array(
          z.object({
            label: z.string(),
            box: z.object({ left: z.number(), top: z.number(), right: z.number(), bottom: z.number() }).optional(),
            point: z.object({ x: z.number(), y: z.number() }).optional(),
            confidence: z.number().optional(),
            track: z.int().optional().describe('In a video: the same one for an object in all frames.'),
            seconds: z.number().optional().describe('In a video: the time of the frame.'),
          }),
        ),
        complete,
      }),
      annotations: READ_ONLY,
    },
    (
      { image, page, categories = [], output = 'box', min_confidence: least = null, draw = false, tiles = false },
      context,
    ) =>
      respond(context, [image], page, async (call) => {
        const how = { points: output === 'point', draws: draw, least, tiles }
        const { drawing, ...found } = await eyes.detect(call, image, categories, how)
        return {
          content: [
            { type: 'text', text: JSON.stringify(found) },
            ...(drawing === null
              ? []
              : [{ type: 'image' as const, data: drawing.toString('base64'), mimeType: 'image/jpeg' }]),
          ],
          structuredContent: found,
        }
      }),
  )

  server.registerTool(
    'decide',
    {
      title: 'Answer typed questions with probabilities',
      description:
        'Answers up to 100 questions about the same media with probabilities: yes or no, one of several options, or a level.',
      inputSchema: z.strictObject({ media, page, questions: z.array(question).min(1).max(100) }),
      outputSchema: z.object({ answers: z.array(answer) }),
      annotations: READ_ONLY,
    },
    ({ media, page, questions }, context) =>
      respond(context, media, page, async (call) => {
        const answers = (await eyes.decide(call, media, questions.map(toQuestion))) as readonly Decided[]
        const decided = { answers: answers.map(toAnswer) }
        return { content: [{ type: 'text', text: JSON.stringify(decided) }], structuredContent: decided }
      }),
  )

  server.registerTool(
    'read',
    {
      title: 'Read text',
      description: 'Reads the text in a picture: all of it as written, or the fields that you name.',
      inputSchema: z.strictObject({
        image: file,
        page,
        fields: z
          .record(z.string().min(1).max(100), z.string().max(1000))
          .refine((fields) => Object.keys(fields).length > 0, 'expected a field')
          .refine((fields) => Object.keys(fields).length <= 50, 'expected at most 50 fields')
          .optional()
          .describe('What to read, by name, such as {"total": "the sum with its currency"}.'),
      }),
      outputSchema: z.object({
        text: z.string(),
        fields: z.record(z.string(), z.string().nullable()).nullable(),
        complete,
      }),
      annotations: READ_ONLY,
    },
    ({ image, page, fields }, context) =>
      respond(context, [image], page, async (call) => {
        const seen = await eyes.read(call, image, fields ?? null)
        return { content: [{ type: 'text', text: seen.text }], structuredContent: seen }
      }),
  )
  return server
}

type Answerer = (
  context: ServerContext,
  /** Names of its files and addresses. */
  names: readonly string[],
  page: number | undefined,
  run: (call: Call) => Promise<CallToolResult>,
) => Promise<CallToolResult | InputRequiredResult>

/** Returns a tool's result, or an error in words that an agent can act upon. */
function answerer(folders: (context: ServerContext) => ReturnType<Folders>): Answerer {
  return async (context, names, given, run) => {
    const page = given ?? null
    const signal = signalOf(context)
    try {
      if (page !== null && names.length > 1) throw new ConfigError('page: expected a single file')
      const media = names.every(isAddress) ? await AllowedMedia.of([]) : await folders(context)
      if (!(media instanceof AllowedMedia)) return media
      using progress = tellProgress(context)
      await using held = new AsyncDisposableStack()
      const notes: string[] = []
      const result = await run({ media, held, page, notes, signal, say: progress.say })
      return { ...result, content: [...result.content, ...notes.map((text) => ({ type: 'text' as const, text }))] }
    } catch (error) {
      return toProblem(error, signal)
    }
  }
}

function toProblem(error: unknown, signal: AbortSignal): CallToolResult {
  const isTold = error instanceof ConfigError || error instanceof ServerError
  if (!isTold && !signal.aborted) process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`)
  const message = error instanceof Error && isTold ? error.message : 'this failed within lookout mcp; its log says why'
  return { isError: true, content: [{ type: 'text', text: message }] }
}

function toQuestion({ question: instructions, options, ordered }: z.output<typeof question>): object {
  if (options === undefined) return { type: 'predicate', instructions }
  if (ordered) return { type: 'score', instructions, levels: options.map((label) => ({ label })) }
  return { type: 'choice', instructions, choices: options.map((value) => ({ value })) }
}

type Decided = Extract<DecisionAnswer, { type: 'predicate' | 'choice' | 'score' | 'refusal' }>

function toAnswer(decided: Decided): z.output<typeof answer> {
  if (decided.type === 'refusal') return { answer: null, confidence: 0, probabilities: [] }
  if (decided.type === 'predicate') {
    const { probability } = decided
    const no = 1 - probability
    return {
      answer: probability >= 0.5,
      confidence: Math.max(probability, no),
      probabilities: [
        { option: true, probability },
        { option: false, probability: no },
      ],
    }
  }
  const { confidence } = decided
  if (decided.type === 'score') {
    const probabilities = decided.probabilities.map(({ label, probability }) => ({ option: label, probability }))
    return { answer: decided.score, confidence, probabilities }
  }
  const probabilities = decided.probabilities.map(({ value, probability }) => ({ option: value, probability }))
  return { answer: decided.choice, confidence, probabilities }
}
