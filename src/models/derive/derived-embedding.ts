import {
  EMBEDDED_IMAGES,
  EMBEDDING_FORMS,
  LEAST_DIMENSIONS,
  RATES_BY_PROBABILITY,
} from '../../families/embedding-models.ts'
import type { GgufMetadata } from '../../families/gguf.ts'
import { EMBEDDING_ARCHITECTURES } from '../../families/llama-cpp-names.ts'
import { CardError } from '../card-error.ts'
import { isObject } from '../card-values.ts'
import type { Origins } from '../origins.ts'
import { POOLINGS, type Pooling } from '../pooling.ts'
import type { ModelHeaders } from '../read/model-headers.ts'
import type { CardFolder } from '../read/weight-files.ts'
import { runsOnServers } from '../server-engines.ts'
import type { WrittenCard } from '../written-card.ts'

/** A model that makes embeddings or scores documents. */
interface EmbeddingFindings {
  /** Absent if the file does not say so. */
  readonly pooling?: Pooling
  readonly leastDimensions?: number
  readonly prompt?: string
  readonly instruction?: string
}

/** A whole text is computed in one call, whose memory grows with it. */
const USUAL_CONTEXT = 4096

/**
 * Reads the embedding settings from a model's header; null for a model that writes text.
 * @param written the card's own settings.
 */
function embeddingOf(language: GgufMetadata, written: WrittenCard['embedding']): EmbeddingFindings | null {
  const architecture = String(language.get('general.architecture'))
  const type = language.get(`${architecture}.pooling_type`)
  const pooling = typeof type === 'number' ? POOLINGS[type - 1] : undefined
  if (pooling === undefined && written === undefined && !EMBEDDING_ARCHITECTURES.includes(architecture)) return null
  const said = pooling === undefined ? {} : { pooling }
  if ((written?.pooling ?? pooling) === 'rank') return said
  const leastDimensions = LEAST_DIMENSIONS[architecture]
  return {
    ...said,
    ...(leastDimensions === undefined ? {} : { leastDimensions }),
    ...EMBEDDING_FORMS[architecture],
  }
}

/** Whether the vector is that of the last token, so that text and pictures may be computed one after the other. */
function isOfLastToken(pooling: Pooling | undefined, language: GgufMetadata): boolean {
  const architecture = String(language.get('general.architecture'))
  if (language.get(`${architecture}.attention.causal`) === false) return false
  return pooling === 'last' || (pooling === 'rank' && RATES_BY_PROBABILITY.includes(architecture))
}

/**
 * Completes the card of a model that makes embeddings or scores documents, including what it cannot do. Other cards are
 * returned unchanged.
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
  const found = language === null ? null : embeddingOf(language, card.embedding)
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
  const takesImages =
    language === null
      ? card.image !== undefined
      : 'projector' in engine && engine.projector !== undefined && isOfLastToken(pooling, language)
  return {
    ...card,
    ...(takesImages ? imageOf(card, language, context.contextTokens) : {}),
    dialect: null,
    embedding: { ...note('embedding', found ?? {}, 'pooling_type'), ...card.embedding },
    serves: serves.map((served, index) => ({
      ...served,
      capabilities: served.capabilities ?? note(`serves[${index}].capabilities`, [capability], 'embedding.pooling'),
      ...(takesImages ? {} : { modalities: ['text'] }),
      outputFormats: [],
      reasoning: false,
      maxOutputTokens: 0,
    })),
    engine: { ...engine, ...context },
  }
}

/** Limits of images other than those of chats. No image may fill the context. */
function imageOf({ image, engine }: WrittenCard, language: GgufMetadata | null, context = engine.contextTokens) {
  const sizes = EMBEDDED_IMAGES[String(language?.get('general.architecture'))]
  if (sizes === undefined) return {}
  const maxTokens = Math.min(sizes.maxTokens, Math.floor((context ?? USUAL_CONTEXT) / 2))
  return { image: { ...sizes, maxTokens, ...(isObject(image) ? image : {}) } }
}
