/** Compiles grammars for a trial, in a thread that can be ended; and follows the last one, if it was slow to compile. */
import { parentPort, workerData } from 'node:worker_threads'
import { READY } from '../../lib/guarded-worker.ts'
import type { GrammarVocabulary } from '../local/sampling/vocabulary.ts'
import { type Call, FAULT, GrammarLine, Operation } from './grammar-line.ts'
import { type Grammar, type GrammarSource, type Matcher, XGrammar } from './xgrammar.ts'

export type Verdict = { readonly type: 'compiled'; readonly ms: number } | { readonly type: 'refused' }

/** From then on the thread answers calls over this memory only, about the grammar that it compiled last. */
export interface ServeMessage {
  readonly serve: SharedArrayBuffer
}

const vocabulary = workerData as GrammarVocabulary
const xgrammar = await XGrammar.create(vocabulary)
let compiled: Grammar | null = null

parentPort!.on('message', async (message: GrammarSource | ServeMessage) => {
  if ('serve' in message) serve(message.serve)
  else parentPort!.postMessage(await judge(message))
})
parentPort!.postMessage(READY)

async function judge(source: GrammarSource): Promise<Verdict> {
  try {
    compiled?.dispose()
    compiled = null
    const started = performance.now()
    compiled = await xgrammar.compile(source)
    const matcher = xgrammar.createMatcher(compiled)
    // A grammar that is hard to follow shows it at its first step.
    matcher.nextTokens()
    matcher.dispose()
    return { type: 'compiled', ms: performance.now() - started }
  } catch {
    return { type: 'refused' }
  }
}

function serve(buffer: SharedArrayBuffer): void {
  const line = new GrammarLine(vocabulary.tokens.length, buffer)
  const matchers = new Map<number, Matcher>()
  const answer = ({ operation, matcher: id, value }: Call): number => {
    if (operation === Operation.create) {
      matchers.set(id, xgrammar.createMatcher(compiled!))
      return 0
    }
    const matcher = matchers.get(id)!
    switch (operation) {
      case Operation.nextTokens:
        line.mask = matcher.nextTokens()
        return 0
      case Operation.accept:
        return matcher.accept(value) ? 1 : 0
      case Operation.forcedText:
        return line.writeText(matcher.forcedText())
      default:
        matchers.delete(id)
        matcher.dispose()
        return 0
    }
  }
  line.serve((call) => {
    try {
      return answer(call)
    } catch {
      return FAULT
    }
  })
}
