import { join } from 'node:path'
import { LocalEngine } from '../../src/inference/local/host/local-engine.ts'
import { loadNativeLibraries, type NativeLibraries } from '../../src/inference/local/native/libraries.ts'
import { locateNativeLibraries } from '../../src/inference/local/native/native-paths.ts'
import type { ModelCard } from '../../src/models/card.ts'
import { type TinyModel, writeTinyModel } from '../../test/support/tiny-models/index.ts'
import { promptsOf } from '../../test/support/tiny-models/prompts.ts'
import { REPLY_TOKENS, REUSE_CELLS, REUSES } from '../../test/support/tiny-models/reuse.ts'
import type { Peer } from '../support/peer-build.ts'
import { startPeer } from '../support/server.ts'
import { EngineReplies } from './engine-replies.ts'
import { askPeer, type Reply } from './peer-replies.ts'

/** How one check of a model came out. */
export interface Cell {
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

/**
 * An image whose tokens attend to each other must fit a batch. ggml's flash attention keeps sums in 16 bits, which alone
 * changes logits by several times the tolerance. The engine's own attention does not.
 */
const EXACT = ['--flash-attn', 'off', '--batch-size', '1024', '--ubatch-size', '1024']

let libraries: NativeLibraries | null = null

/** @param folder for the model's files. */
export async function checkFamily(model: TinyModel, folder: string, peer: Peer): Promise<FamilyResult> {
  const card = await writeTinyModel(model, folder, { contextTokens: REUSE_CELLS })
  const cells = new Map<string, Cell>()
  try {
    for (const [name, cell] of await compareWithPeer(model, card, peer)) cells.set(name, cell)
    await using engine = disposable(await LocalEngine.start(card))
    for (const [name, reuse] of Object.entries(REUSES)) {
      const result = await reuse(engine, model).catch((error: Error) => error)
      cells.set(name, result instanceof Error ? failed(result.message) : reuseCell(result))
    }
  } catch (error) {
    cells.set('loads', failed((error as Error).message))
  }
  return { model, cells }
}

async function compareWithPeer(model: TinyModel, card: ModelCard, peer: Peer): Promise<Map<string, Cell>> {
  const cells = new Map<string, Cell>()
  const { engine, directory } = card
  libraries ??= loadNativeLibraries(locateNativeLibraries())
  const own = new EngineReplies(libraries, card)
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
        threads: 2,
      },
      { slots: 1, threads: 2, contextTokens: engine.contextTokens, unified: true, arguments: EXACT },
    )
    for (const { name, parts } of promptsOf(model)) {
      try {
        cells.set(name, compare(own.ask(parts, REPLY_TOKENS), await askPeer(server, parts, REPLY_TOKENS)))
      } catch (error) {
        cells.set(name, failed((error as Error).message))
      }
    }
  } finally {
    own.close()
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
    const gap = (first! - second!).toExponential(1)
    return failed(`differ from token ${step} on, where the two likeliest are ${gap} apart; logits by ${largest}`)
  }
  if (own.text !== peer.text) return failed(`${JSON.stringify(own.text)} != ${JSON.stringify(peer.text)}`)
  const text = `${length} tokens, ${largest.toExponential(0)}`
  return largest <= TOLERANCE ? { passed: true, text } : failed(`log probabilities differ by ${largest}`)
}

function reuseCell({ differing, reused }: { differing: readonly string[]; reused: boolean }): Cell {
  if (differing.length > 0) return failed(differing[0]!)
  return { passed: true, text: reused ? 'same' : 'same, computed again' }
}

function failed(detail: string): Cell {
  return { passed: false, text: '**differs**', detail }
}

function disposable(engine: LocalEngine): LocalEngine & AsyncDisposable {
  return Object.assign(engine, { [Symbol.asyncDispose]: () => engine.close() })
}
