import { afterAll, beforeAll, expect, test } from 'vitest'
import { shippedSettings } from '../../../../../test/support/shipped-settings.ts'
import { growTrees } from '../../../contract/reply-tree.ts'
import { loadNativeLibraries, type NativeLibraries } from '../../native/libraries.ts'
import { locateNativeLibraries } from '../../native/native-paths.ts'
import { WHOLE } from '../../tokens/encoder-turns.ts'
import type { PromptChunk } from '../../tokens/prompt-tokens.ts'
import { LoadedModel } from '../loaded-model.ts'
import { ScoringContext, type ScoringUnit, type UnitRows } from './scoring-context.ts'
import { type ScoringLimits, scoringLimits } from './scoring-limits.ts'
import { createPrefix } from './scoring-prefix.ts'

/** Lengths of the tails of the units, over and over. */
const TAILS = [5, 19, 11, 32, 7, 16, 1, 24]
/** Not a multiple of the cells that other attention than ours may sum together. */
const PREFIX_TOKENS = 21

let libraries: NativeLibraries
let loaded: LoadedModel
beforeAll(async () => {
  libraries = loadNativeLibraries(locateNativeLibraries())
  loaded = new LoadedModel(libraries, await shippedSettings())
})
afterAll(() => loaded?.close())

/** Tokens of no meaning, the same ones each time. */
function tokensFrom(start: number, count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, at) => ((start + at) * 7919 + 13) % loaded.model.vocabularySize)
}

/** As many units as fit into a call. */
function unitsWithin({ rows, outputs, leaves }: ScoringLimits): ScoringUnit[] {
  const units: ScoringUnit[] = []
  const used = { rows: 0, outputs: 0, leaves: 0 }
  for (let number = 0; ; number++) {
    const tail = tokensFrom(100 * number, TAILS[number % TAILS.length]!)
    const replies = [1, 3, 2].slice(0, 1 + (number % 3)).map((length, at) => tokensFrom(number + at, length))
    const [tree] = growTrees(replies, { nodes: rows, leaves })
    used.rows += tail.length + tree!.nodes.length
    used.outputs += 1 + tree!.nodes.length
    used.leaves += tree!.leaves
    const fits = used.rows <= rows && used.outputs <= outputs && used.leaves <= leaves
    if (!fits) return units
    units.push({ tail, tree: tree! })
  }
}

function logitsOf(context: ScoringContext, { root, nodes }: UnitRows): Buffer {
  const rows = [root, ...nodes]
  return Buffer.concat(rows.map((row) => Buffer.from(Float32Array.from(context.logits(row)).buffer)))
}

test.skipIf(!locateNativeLibraries().kernels)(
  'our own kernels give a question the same bits alone and in a call of many',
  () => {
    const limits = scoringLimits(loaded, true)
    const context = new ScoringContext(loaded, limits, 64 + limits.rows)
    try {
      const units = unitsWithin(limits)
      expect(units.length).toBeGreaterThan(5)
      const chunks: PromptChunk[] = [{ type: 'text', tokens: tokensFrom(1, PREFIX_TOKENS) }]
      context.begin(createPrefix(chunks, ''))
      while (!context.isFilled) context.fill(WHOLE)
      const together = context.decode(units).map((rows) => logitsOf(context, rows))
      context.setThreads(1)
      for (const [at, unit] of units.entries()) {
        const [rows] = context.decode([unit])
        expect(logitsOf(context, rows!).equals(together[at]!), `unit ${at}`).toBe(true)
      }
    } finally {
      context.close()
    }
  },
)
