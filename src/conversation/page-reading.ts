import { FAMILIES } from '../families/families.ts'
import { type Family, type PageReading, READS_IN_WORDS } from '../families/family.ts'
import type { Leaf } from '../grounding/annotation.ts'
import { PAGE_NOTATIONS } from '../grounding/pages/notations.ts'
import { boxOf, type PageBlock, textBlocks, upTo } from '../grounding/pages/page.ts'
import type { Generation } from '../inference/contract/generation.ts'
import type { PromptPart } from '../inference/contract/parts.ts'
import type { Work } from '../inference/contract/work.ts'
import { GRID } from '../media/coordinates.ts'
import type { DecodedImage } from '../media/decoding/process/protocol.ts'
import type { ModelCard } from '../models/card.ts'
import { branchOf, type Call } from './call/call.ts'
import { searchPicture } from './detect.ts'
import { untrusted } from './prompt/placeholders.ts'
import { buildPrompt } from './prompt/prompt.ts'
import { AS_MANY_AS_FIT, MeasuredPrompt } from './prompt/token-budget.ts'
import { assembleChoices, assembleReply } from './reply/assembler.ts'
import { collectReply, ReplyCollector } from './reply/reply.ts'
import { ReplySpec } from './reply/reply-spec.ts'
import type { MediaContent } from './request/message.ts'

export interface PageText {
  /** In reading order. */
  readonly blocks: readonly PageBlock[]
  /** Whether the model had no room for more. */
  readonly isCut: boolean
}

interface ReadOptions {
  readonly call: Call
  /** Submits work to the engine. */
  admit(work: Work): Promise<Generation>
}

/** The parameter that errors about a page name. */
const PARAM = 'document'
/** The most texts of a page that are read one by one. */
const MOST_TEXTS = 128
/** The limit of tokens for each of these texts. */
const TEXT_TOKENS = { maxTokens: 256, maxTokensParam: 'max_completion_tokens', clampsTokens: true } as const

/** Reads a page in the way that the model's family was trained to. */
export function readPage(page: DecodedImage, options: ReadOptions): Promise<PageText> {
  const reading = readingOf(options.call.model.card)
  return 'finds' in reading ? readPlaces(page, reading, options) : readWhole(page, reading, options)
}

function readingOf({ family, dialect }: ModelCard): PageReading {
  const { reading = READS_IN_WORDS }: Partial<Family> = family === null ? {} : FAMILIES[family]
  return 'finds' in reading && dialect === null ? READS_IN_WORDS : reading
}

async function readWhole(
  { image }: DecodedImage,
  { prompt, notation, instruction }: Extract<PageReading, { notation: unknown }>,
  { call, admit }: ReadOptions,
): Promise<PageText> {
  const { model, style, organisation } = call
  const part: MediaContent = { type: 'image_url', image_url: { url: '' } }
  const parts: PromptPart[] = [{ type: 'image', image }]
  // Its control tokens are the family's, not a client's.
  if (prompt !== '') parts.push({ type: 'text', text: prompt, trusted: true })
  const messages = [{ message: { role: 'user', content: [part] }, param: [PARAM] } as const]
  const source = { param: PARAM, messages, media: new Map([[part, { parts }]]), instruction: instruction ?? null }
  const suffix = await buildPrompt(source, style)
  const spec = new ReplySpec({}, model)
  const branch = await branchOf({ param: PARAM, suffix, spec, asked: AS_MANY_AS_FIT }, call)
  const generation = await admit({ organisation, prefix: [], branches: [branch], whole: true })
  const completion = { readers: [spec.createReader()], maxTokens: branch.maxTokens, nothing: '' }
  const { text, finish } = await collectReply(assembleReply({ ...call, generation, completion, stops: [] }))
  return { blocks: PAGE_NOTATIONS[notation](text, image), isCut: finish.reason === 'length' }
}

/** Finds the texts of a page, and then reads each of them by its place. */
async function readPlaces(
  page: DecodedImage,
  { finds, question }: Extract<PageReading, { finds: unknown }>,
  { call, admit }: ReadOptions,
): Promise<PageText> {
  const { model, organisation } = call
  const targets = { categories: [finds], exemplars: [], negatives: [], thinking: false, confidence: null }
  const asked = { request: { ...targets, output: 'box' }, labels: [finds], kind: 'box' } as const
  const { leaves, isComplete, asking } = await searchPicture(asked, [page], call, admit)
  if (leaves.length === 0) return { blocks: [], isCut: !isComplete }
  const texts = inLines(leaves.slice(0, MOST_TEXTS))
  const plain = await asking.plain()
  const picture: PromptPart = { type: 'image', image: page.image }
  const prefix = new MeasuredPrompt([...plain.prefix, picture], call)
  const spec = new ReplySpec({}, model)
  const branches = await Promise.all(
    texts.map(({ points: [from, to] }) => {
      const corners = { left: from!.x, top: from!.y, right: to!.x, bottom: to!.y }
      const text = Object.entries(corners).reduce(
        (text, [name, value]) => text.replace(`{${name}}`, `${value}`),
        question,
      )
      // Every question begins with the picture, which is the last part of the shared prefix.
      const [, ...suffix] = plain.suffix([picture, ...untrusted(text)])
      return branchOf({ param: PARAM, prefix, suffix, spec, asked: TEXT_TOKENS }, call)
    }),
  )
  const generation = await admit({ organisation, prefix: prefix.parts, branches, whole: true })
  const completions = branches.map(({ maxTokens }) => ({ readers: [spec.createReader()], maxTokens, nothing: '' }))
  const replies = texts.map(() => new ReplyCollector())
  const source = { ...call, generation, completions, completionsOfBranch: 1, stops: [] }
  for await (const { choice, event } of assembleChoices(source)) replies[choice]!.add(event)
  const blocks = texts.flatMap(({ points }, index) => {
    const box = boxOf(
      points.flatMap(({ x, y }) => [x, y]),
      upTo(GRID),
    )
    return textBlocks(replies[index]!.message.text).map((block) => ({ ...block, box }))
  })
  return { blocks, isCut: !isComplete || leaves.length > MOST_TEXTS }
}

/** Sorts from top to bottom. Texts beside each other form one line, from left to right. */
function inLines(leaves: readonly Leaf[]): readonly Leaf[] {
  const top = ({ points }: Leaf) => points[0]!.y
  const lines: { readonly bottom: number; readonly leaves: Leaf[] }[] = []
  for (const leaf of leaves.toSorted((one, other) => top(one) - top(other))) {
    const [from, to] = leaf.points
    const line = lines.at(-1)
    if (line !== undefined && (from!.y + to!.y) / 2 < line.bottom) line.leaves.push(leaf)
    else lines.push({ bottom: to!.y, leaves: [leaf] })
  }
  return lines.flatMap(({ leaves }) => leaves.sort((one, other) => one.points[0]!.x - other.points[0]!.x))
}
