import { ReplyCollector } from '../../src/conversation/reply/reply.ts'
import { ToolCallReader } from '../../src/conversation/reply/tool-call-reader.ts'
import type { Tool } from '../../src/conversation/request/tool.ts'
import { TOOL_SYNTAXES } from '../../src/conversation/tools/syntaxes.ts'
import type { Leaf } from '../../src/grounding/annotation.ts'
import type { DetectionKind, Dialect, Scene } from '../../src/grounding/dialect.ts'
import { DIALECTS } from '../../src/grounding/dialects/dialects.ts'
import { parseMarkup } from '../../src/grounding/markup-parser.ts'
import { formatPiece } from '../../src/grounding/markup-writer.ts'
import type { Constraint } from '../../src/inference/contract/constraint.ts'
import type { Engine } from '../../src/inference/contract/engine.ts'
import type { Sampling } from '../../src/inference/contract/work.ts'
import type { ModelCard } from '../../src/models/card.ts'
import { promptsOf } from '../../test/support/tiny-models/prompts.ts'
import { answers, branch, GREEDY } from '../../test/support/tiny-models/reuse.ts'
import type { TinyModel } from '../../test/support/tiny-models/tiny-model.ts'

/** What is wrong with a notation. */
class NotationError extends Error {}

/** Draws all texts that a notation allows about equally often. */
const ANY: Sampling = { ...GREEDY, temperature: 1.5 }
const REPLIES = 16
/** More than a whole reply has. */
const TOKENS = 400

const PLACES = ['here', 'there']
const TOOL: Tool = {
  name: 'get-shoe.size',
  description: null,
  parameters: JSON.stringify({
    type: 'object',
    properties: { place: { enum: PLACES }, exact: { type: 'boolean' } },
    required: ['place', 'exact'],
    additionalProperties: false,
  }),
}

/**
 * Has the model write calls as its family does, and reads them as a reply's.
 * @returns false for a family that writes none.
 * @throws NotationError
 */
export async function readsCalls(engine: Engine, model: TinyModel, card: ModelCard): Promise<boolean> {
  if (card.toolSyntax === undefined) return false
  const tools = [TOOL]
  const syntax = TOOL_SYNTAXES[card.toolSyntax]
  for (const reply of await written(engine, model, { ...syntax.constraint(tools, true), atLeastOne: true })) {
    const reader = new ToolCallReader({ syntax, tools, single: true, newId: () => 'id' })
    const collector = new ReplyCollector()
    for (const piece of [...reader.push(reply), ...reader.end(false)]) collector.add(piece)
    const { text, toolCalls } = collector.message
    if (text !== '' || toolCalls.length !== 1) throw new NotationError(`no call: ${JSON.stringify(reply)}`)
    const [{ name, arguments: values }] = toolCalls as [(typeof toolCalls)[0]]
    const { place, exact } = JSON.parse(values) as { place: string; exact: unknown }
    if (name !== TOOL.name || !PLACES.includes(place) || typeof exact !== 'boolean') {
      throw new NotationError(`${JSON.stringify(reply)} became ${name}(${values})`)
    }
  }
  return true
}

const LABELS = ['cup', 'red shoe']
/** A coordinate: no digit of a key. */
const NUMBER = /(?<![\w.])\d+(?:\.\d+)?/g

/**
 * Has the model write places as its family does, and reads them as the contract's annotations.
 * @returns false for a family that writes none.
 * @throws NotationError
 */
export async function readsPlaces(engine: Engine, model: TinyModel, card: ModelCard): Promise<boolean> {
  if (card.dialect === null) return false
  const dialect: Dialect = DIALECTS[card.dialect]
  const scene: Scene = { assets: 1, timed: false, image: model.pictures?.[0] ?? null }
  for (const kind of ['box', 'point'] as const) {
    if (dialect.formats.includes(kind)) await readPlaces(engine, model, dialect, kind, scene)
  }
  return true
}

async function readPlaces(
  engine: Engine,
  model: TinyModel,
  dialect: Dialect,
  kind: DetectionKind,
  scene: Scene,
): Promise<void> {
  const pattern = dialect.detection.pattern(kind, LABELS, scene)
  let found = 0
  for (const reply of await written(engine, model, { type: 'regex', pattern })) {
    const reader = dialect.reader(scene)
    const pieces = [...reader.push(reply), ...reader.end(false)]
    const leaves = pieces.filter((piece): piece is Leaf => piece.kind === 'point' || piece.kind === 'point_box')
    const coordinates = reply.match(NUMBER)?.length ?? 0
    if (coordinates !== leaves.length * (kind === 'box' ? 4 : 2)) {
      throw new NotationError(`${leaves.length} annotations in ${JSON.stringify(reply)}`)
    }
    const wrong = leaves.find(
      ({ kind: read, mention = '' }) => !LABELS.includes(mention) || read !== (kind === 'box' ? 'point_box' : 'point'),
    )
    if (wrong !== undefined) throw new NotationError(`${JSON.stringify(reply)} became ${formatPiece(wrong)}`)
    parseMarkup(pieces.map(formatPiece).join(''))
    found += leaves.length
  }
  if (found === 0) throw new NotationError(`no ${kind} in ${REPLIES} replies`)
}

function written(engine: Engine, model: TinyModel, constraint: Constraint): Promise<string[]> {
  const { parts } = promptsOf(model).at(-1)!
  return answers(engine, 'notations', parts, [branch({ n: REPLIES, maxTokens: TOKENS, sampling: ANY, constraint })])
}
