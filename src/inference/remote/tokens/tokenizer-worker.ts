/** Tokenises prompts on a thread that can be terminated, because a text may be long. */
import { parentPort, workerData } from 'node:worker_threads'
import { READY } from '../../../lib/guarded/guarded-worker.ts'
import { HubTokenizer, type PromptText, type Vocabulary } from './hub-tokenizer.ts'

/** Groups of texts, each tokenised separately; or a request for the vocabulary. */
export type TokenizerQuestion =
  | { readonly type: 'encode'; readonly groups: readonly (readonly PromptText[])[] }
  | { readonly type: 'vocabulary' }

export type TokenizerAnswer =
  | { readonly type: 'encoded'; readonly groups: readonly Int32Array[] }
  | { readonly type: 'vocabulary'; readonly vocabulary: Vocabulary }
  | { readonly type: 'failed'; readonly message: string }

let tokenizer: HubTokenizer | null = null

parentPort!.on('message', (question: TokenizerQuestion) => parentPort!.postMessage(answer(question)))
parentPort!.postMessage(READY)

function answer(question: TokenizerQuestion): TokenizerAnswer {
  try {
    tokenizer ??= new HubTokenizer(workerData as string)
    if (question.type === 'vocabulary') return { type: 'vocabulary', vocabulary: tokenizer.vocabulary }
    return { type: 'encoded', groups: question.groups.map((texts) => tokenizer!.encode(texts)) }
  } catch (error) {
    return { type: 'failed', message: error instanceof Error ? error.message : String(error) }
  }
}
