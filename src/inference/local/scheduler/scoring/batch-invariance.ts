import { growTrees } from '../../../contract/reply-tree.ts'
import { WHOLE } from '../../tokens/encoder-turns.ts'
import type { PromptChunk } from '../../tokens/prompt-tokens.ts'
import type { ScoringContext, ScoringUnit, UnitRows } from './scoring-context.ts'
import type { ScoringLimits } from './scoring-limits.ts'

/** Lengths of the tails of the units that are tried, over and over. */
const TAILS = [5, 19, 11, 32, 7, 16, 1, 24]
/** Units that are computed alone as well. */
const ALONE = 3
/** Not a multiple of the cells that other attention than ours may sum together. */
const PREFIX_TOKENS = 21

/**
 * Whether a question's logits are the same, bit for bit, when others are in the same call, and with one thread. Own kernels
 * are written so; what else computes, such as ggml's code for other types of weights, is tried.
 * @param context in which nothing is.
 * @param vocabulary number of tokens.
 */
export function isBatchInvariant(context: ScoringContext, limits: ScoringLimits, vocabulary: number): boolean {
  const units = unitsWithin(limits, vocabulary)
  const chunks: PromptChunk[] = [{ type: 'text', tokens: tokensFrom(1, PREFIX_TOKENS, vocabulary) }]
  context.begin({ key: '', chunks, cells: PREFIX_TOKENS })
  while (!context.isFilled) context.fill(WHOLE)
  const together = context.decode(units).map((rows) => logitsOf(context, rows))
  context.setThreads(1)
  const chosen = [units.length - 1, Math.floor(units.length / 2), 0].slice(0, ALONE)
  const areSame = chosen.every((at) => {
    const [rows] = context.decode([units[at]!])
    return logitsOf(context, rows!).equals(together[at]!)
  })
  context.setThreads(limits.threads)
  context.clear()
  return areSame
}

/** As many units as fit into a call. */
function unitsWithin({ rows, outputs, leaves }: ScoringLimits, vocabulary: number): ScoringUnit[] {
  const units: ScoringUnit[] = []
  const used = { rows: 0, outputs: 0, leaves: 0 }
  for (let number = 0; ; number++) {
    const tail = tokensFrom(100 * number, TAILS[number % TAILS.length]!, vocabulary)
    const replies = [1, 3, 2]
      .slice(0, 1 + (number % 3))
      .map((length, at) => tokensFrom(number + at, length, vocabulary))
    const [tree] = growTrees(replies, { nodes: rows, leaves })
    used.rows += tail.length + tree!.nodes.length
    used.outputs += 1 + tree!.nodes.length
    used.leaves += tree!.leaves
    const fits = used.rows <= rows && used.outputs <= outputs && used.leaves <= leaves
    if (!fits) return units
    units.push({ tail, tree: tree! })
  }
}

/** Tokens of no meaning, the same ones each time. */
function tokensFrom(start: number, count: number, vocabulary: number): Int32Array {
  return Int32Array.from({ length: count }, (_, at) => ((start + at) * 7919 + 13) % vocabulary)
}

function logitsOf(context: ScoringContext, { root, nodes }: UnitRows): Buffer {
  const rows = [root, ...nodes]
  return Buffer.concat(rows.map((row) => Buffer.from(Float32Array.from(context.logits(row)).buffer)))
}
