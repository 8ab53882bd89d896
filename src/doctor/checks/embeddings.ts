import type { Engine } from '../../inference/contract/engine.ts'
import type { EmbedInput } from '../../inference/contract/work.ts'
import type { Finding } from '../finding.ts'

const QUESTION = 'Where can I park my bicycle?'
const ANSWER = 'Bikes may be left in the rack beside the entrance.'
const OTHER = 'The soup simmers for two hours with salt and pepper.'

/** Whether a model that makes embeddings or scores rates the answer to a question nearer than another text. */
export async function checkEmbeddings(engine: Engine, isRank: boolean, signal: AbortSignal): Promise<Finding> {
  const check = 'meaning'
  const inputs: readonly EmbedInput['content'][] = isRank
    ? [ANSWER, OTHER].map((document) => ({ query: QUESTION, document }))
    : [QUESTION, ANSWER, OTHER]
  try {
    const work = { organisation: 'doctor', inputs: inputs.map((content) => ({ content, param: 'input' })) }
    const vectors: Float32Array[] = []
    for await (const { input, vector } of (await engine.embed!(work, signal)).vectors) vectors[input] = vector
    const near = isRank ? vectors[0]![0]! : similarity(vectors[0]!, vectors[1]!)
    const far = isRank ? vectors[1]![0]! : similarity(vectors[0]!, vectors[2]!)
    const numbers = `${near.toFixed(2)} and ${far.toFixed(2)}`
    if (near > far)
      return { check, verdict: 'ok', finding: `An answer is nearer to its question than another text: ${numbers}.` }
    return { check, verdict: 'noise', finding: `An answer is no nearer to its question than another text: ${numbers}.` }
  } catch (error) {
    signal.throwIfAborted()
    return { check, verdict: 'failed', finding: (error as Error).message }
  }
}

function similarity(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, value, at) => sum + value * b[at]!, 0)
}
