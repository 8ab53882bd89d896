import { LEAST_DIMENSIONS } from '../../families/embedding-models.ts'
import type { GgufMetadata } from '../../families/gguf.ts'
import { EMBEDDING_ARCHITECTURES } from '../../families/llama-cpp-names.ts'
import { CardError } from '../card-error.ts'
import type { Origins } from '../origins.ts'
import { POOLINGS, type Pooling } from '../pooling.ts'
import type { ModelHeaders } from '../read/model-headers.ts'
import type { CardFolder } from '../read/weight-files.ts'
import { runsOnServers } from '../server-engines.ts'
import type { WrittenCard } from '../written-card.ts'

/** A model that makes embeddings or rates documents. */
interface EmbeddingFindings {
  /** Absent where the file does not say it. */
  readonly pooling?: Pooling
  readonly leastDimensions?: number
}

/** A text of many tokens is computed in one call, in memory that grows with it. */
const USUAL_CONTEXT = 4096

/** What a model's header says of its embeddings; null for a model that writes text. */
function embeddingOf(language: GgufMetadata): EmbeddingFindings | null {
  const architecture = String(language.get('general.architecture'))
  const type = language.get(`${architecture}.pooling_type`)
  const pooling = typeof type === 'number' ? POOLINGS[type - 1] : undefined
  if (pooling === undefined && !EMBEDDING_ARCHITECTURES.includes(architecture)) return null
  const leastDimensions = pooling === 'rank' ? undefined : LEAST_DIMENSIONS[architecture]
  return { ...(pooling && { pooling }), ...(leastDimensions === undefined ? {} : { leastDimensions }) }
}

/**
 * The card of a model that makes embeddings or rates documents, with what such a model is and what it cannot do. Any other card
 * stays as it is.
 * @throws CardError for servers that are not asked for embeddings.
 */
export async function withEmbedding(
  card: WrittenCard,
  place: CardFolder,
  { headers, origins }: { readonly headers: ModelHeaders; readonly origins: Origins },
): Promise<WrittenCard> {
  const { engine, serves = [{}] } = card
  const promised = (['embeddings', 'rerank'] as const).find((one) =>
    serves.some(({ capabilities }) => capabilities?.includes(one)),
  )
  const isWritten = card.embedding !== undefined || promised !== undefined
  if (runsOnServers(engine)) {
    if (!isWritten) return card
    const problem = "embeddings are asked of servers with engine.type 'openai' alone, which vLLM's are too"
    throw new CardError(place.file, 'engine.type', problem)
  }
  const isLocal = engine.type !== 'openai'
  if (!isWritten && !(isLocal && serves.some(({ capabilities }) => capabilities === undefined))) return card
  const language = isLocal ? await headers.language() : null
  const found = language === null ? null : embeddingOf(language)
  if (!isWritten && found === null) return card
  const note = <Value>(field: string, value: Value, origin: string) => origins.note(field, value, origin)
  const pooling = card.embedding?.pooling ?? found?.pooling
  if (isLocal && pooling === undefined) {
    const needed = "is needed, since the model's file does not say how it pools: 'mean', 'cls', 'last' or 'rank'"
    throw new CardError(place.file, 'embedding.pooling', needed)
  }
  const capability = pooling === 'rank' || promised === 'rerank' ? 'rerank' : 'embeddings'
  const trained = language?.get(`${language.get('general.architecture')}.context_length`)
  const context =
    engine.contextTokens !== undefined || typeof trained !== 'number'
      ? {}
      : { contextTokens: note('engine.contextTokens', Math.min(trained, USUAL_CONTEXT), 'default') }
  return {
    ...card,
    dialect: null,
    embedding: { ...note('embedding', found ?? {}, 'pooling_type'), ...card.embedding },
    serves: serves.map((served, index) => ({
      ...served,
      capabilities: served.capabilities ?? note(`serves[${index}].capabilities`, [capability], 'embedding.pooling'),
      modalities: ['text'],
      outputFormats: [],
      reasoning: false,
      maxOutputTokens: 0,
    })),
    engine: { ...engine, ...context },
  }
}
