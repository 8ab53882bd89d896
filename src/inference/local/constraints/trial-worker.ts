/** Compiles grammars for a trial, in a thread that can be ended. */
import { parentPort, workerData } from 'node:worker_threads'
import { READY } from '../../../guarded-worker.ts'
import type { GrammarVocabulary } from './vocabulary.ts'
import { type GrammarSource, XGrammar } from './xgrammar.ts'

export type Verdict = 'compiled' | 'refused'

const xgrammar = await XGrammar.create(workerData as GrammarVocabulary)
parentPort!.on('message', async (source: GrammarSource) => {
  parentPort!.postMessage(await judge(source))
})
parentPort!.postMessage(READY)

async function judge(source: GrammarSource): Promise<Verdict> {
  try {
    const grammar = await xgrammar.compile(source)
    const matcher = xgrammar.createMatcher(grammar)
    // A grammar that is hard to follow shows it at its first step.
    matcher.nextTokens()
    matcher.dispose()
    grammar.dispose()
    return 'compiled'
  } catch {
    return 'refused'
  }
}
