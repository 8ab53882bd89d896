import { join } from 'node:path'
import type { PromptPart } from '../../src/inference/contract/parts.ts'
import { LocalEngine } from '../../src/inference/local/host/local-engine.ts'
import { loadNativeLibraries, type NativeLibraries } from '../../src/inference/local/native/libraries.ts'
import { locateNativeLibraries } from '../../src/inference/local/native/native-paths.ts'
import type { LocalModelCard } from '../../src/models/card.ts'
import { writeGguf } from '../../test/support/gguf-writer.ts'
import { writeDerivedModel } from '../../test/support/tiny-models/derived.ts'
import { loraOf } from '../../test/support/tiny-models/lora.ts'
import { type NamedPrompt, promptsOf } from '../../test/support/tiny-models/prompts.ts'
import { REPLY_TOKENS, REUSE_CELLS, REUSES } from '../../test/support/tiny-models/reuse.ts'
import { type TinyModel, writeTinyModel } from '../../test/support/tiny-models/tiny-model.ts'
import type { Peer } from '../support/peer-build.ts'
import { startPeer } from '../support/server.ts'
import { EngineReplies } from './engine-replies.ts'
import { readsCalls, readsPlaces } from './notations.ts'
import { oddPrompts } from './odd-images.ts'
import { askPeer, type Reply } from './peer-replies.ts'

/** How one check of a model came out. */
interface Cell {
  readonly passed: boolean
  /** What stands in the table. */
  readonly text: string
  /** What is wrong, or worth knowing. */
  readonly detail?: string
}

export interface FamilyResult {
  readonly model: TinyModel
  readonly cells: ReadonlyMap<string, Cell>
}

/**
 * Two replies are the same where tokens are, and log probabilities differ by no more than this. Logits then differ by no
 * more than half of it: the sum over all of them moves as far as they do.
 */
const TOLERANCE = 2e-3
/** Tokens that must agree before a tie. */
const LEAST_STEPS = 16

/**
 * An image whose tokens attend to each other must fit a batch. ggml's flash attention keeps sums in 16 bits, which alone
 * changes logits by several times the tolerance. The engine's own attention does not.
 */
const EXACT = ['--flash-attn', 'off', '--batch-size', '1024', '--ubatch-size', '1024']

/**
 * llama-server 0.4.0 computes the row ends of Pixtral's images from memory that it has not written, times zero. With this,
 * glibc hands out no memory whose content is no number. Set-up corrects that in our own library.
 */
const NUMBERS_ONLY = { MALLOC_PERTURB_: '255' }

const ADAPTER_SCALE = 0.25

/** For what is sampled. */
const SEED = 11

let libraries: NativeLibraries | null = null

/** @param folder for the model's files. */
export async function checkFamily(model: TinyModel, folder: string, peer: Peer): Promise<FamilyResult> {
  const card = await writeTinyModel(model, folder, { contextTokens: REUSE_CELLS })
  const cells = new Map<string, Cell>()
  try {
    for (const [name, cell] of await compareWithPeer(model, card, peer, promptsOf(model))) cells.set(name, cell)
    for (const [name, cell] of await compareOddImages(model, folder, peer)) cells.set(name, cell)
    await using engine = disposable(await LocalEngine.start(card, { seed: SEED }))
    for (const [name, reuse] of Object.entries(REUSES)) {
      cells.set(name, await reuse(engine, model).then(reuseCell, failure))
    }
    cells.set('tools', await readsCalls(engine, model, card).then(notationCell, failure))
    cells.set('dialect', await readsPlaces(engine, model, card).then(notationCell, failure))
  } catch (error) {
    cells.set('loads', failure(error as Error))
  }
  return { model, cells }
}

/** Images of odd sizes, with limits that are derived from the model's files. */
async function compareOddImages(model: TinyModel, folder: string, peer: Peer): Promise<Map<string, Cell>> {
  if (model.encoder === undefined) return new Map()
  const card = await writeDerivedModel(model, join(folder, 'derived'), { contextTokens: REUSE_CELLS })
  const prompts = oddPrompts(model, card)
  return prompts.length === 0 ? new Map() : compareWithPeer(model, card, peer, prompts)
}

async function compareWithPeer(
  model: TinyModel,
  card: LocalModelCard,
  peer: Peer,
  prompts: readonly NamedPrompt[],
): Promise<Map<string, Cell>> {
  const cells = new Map<string, Cell>()
  const { engine, directory } = card
  libraries ??= loadNativeLibraries(locateNativeLibraries())
  const adapter = { path: join(directory, 'adapter.gguf'), scale: ADAPTER_SCALE }
  // llama-server fails at some replies of a model whose tokens are changed, and llama.cpp at these products of GLM-4.
  const changes = (name: string) =>
    /^blk\./.test(name) && !(model.family === 'glm4v' && /attn_output|ffn_down/.test(name))
  await writeGguf(adapter.path, loraOf(model.language(), { seed: `adapter of ${model.name}`, changes }))
  const own = new EngineReplies(libraries, card, adapter)
  try {
    await using server = await startPeer(
      peer,
      {
        name: model.name,
        id: card.serves[0]!.id,
        cardFile: card.file,
        card,
        model: join(directory, engine.model),
        projector: engine.projector === undefined ? null : join(directory, engine.projector),
        takesImages: card.image !== undefined,
        isSmall: true,
        threads: 2,
      },
      {
        slots: 1,
        threads: 2,
        contextTokens: engine.contextTokens,
        unified: true,
        arguments: [...EXACT, '--lora', adapter.path, '--lora-init-without-apply'],
        environment: NUMBERS_ONLY,
      },
    )
    const add = async (name: string, parts: readonly PromptPart[], scale?: number) => {
      try {
        const reply = own.ask(parts, REPLY_TOKENS, scale !== undefined)
        cells.set(name, compare(reply, await askPeer(server, parts, REPLY_TOKENS, scale)))
      } catch (error) {
        cells.set(name, failure(error as Error))
      }
    }
    for (const { name, parts } of prompts) await add(name, parts)
    const text = prompts.find(({ name }) => name === 'text')
    if (text !== undefined) await add('LoRA', text.parts, adapter.scale)
  } finally {
    await own.close()
  }
  return cells
}

function compare(own: Reply, peer: Reply): Cell {
  const length = Math.min(own.steps.length, peer.steps.length)
  let largest = 0
  for (let step = 0; step < length; step++) {
    const [ours, theirs] = [own.steps[step]!, peer.steps[step]!]
    const [first, second] = [...ours.values()]
    for (const [token, logprob] of ours) {
      const other = theirs.get(token)
      if (other !== undefined) largest = Math.max(largest, Math.abs(logprob - other))
    }
    if ([...ours.keys()][0] === [...theirs.keys()][0]) continue
    const gap = first! - second!
    // Either reply is right, and what follows is about different texts.
    if (gap <= largest && largest <= TOLERANCE && step >= LEAST_STEPS) {
      return { passed: true, text: `${step} tokens, ${largest.toExponential(0)}, then a tie` }
    }
    const apart = gap.toExponential(1)
    return failed(`differ from token ${step} on, where the two likeliest are ${apart} apart; logits by ${largest}`)
  }
  if (own.text !== peer.text) return failed(`${JSON.stringify(own.text)} != ${JSON.stringify(peer.text)}`)
  const text = `${length} tokens, ${largest.toExponential(0)}`
  return largest <= TOLERANCE ? { passed: true, text } : failed(`log probabilities differ by ${largest}`)
}

function reuseCell({ differing, reused }: { differing: readonly string[]; reused: boolean }): Cell {
  if (differing.length > 0) return failed(differing[0]!)
  return { passed: true, text: reused ? 'same' : 'same, computed again' }
}

function notationCell(hasNotation: boolean): Cell {
  return { passed: true, text: hasNotation ? 'passed' : 'none' }
}

function failure({ message }: Error): Cell {
  return failed(message)
}

function failed(detail: string): Cell {
  return { passed: false, text: '**differs**', detail }
}

function disposable(engine: LocalEngine): LocalEngine & AsyncDisposable {
  return Object.assign(engine, { [Symbol.asyncDispose]: () => engine.close() })
}
