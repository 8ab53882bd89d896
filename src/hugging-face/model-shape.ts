import type { SourceFile } from './source-file.ts'

/** The shape of a Qwen3-VL model, from its files. */
export type ModelShape = Readonly<ReturnType<typeof readShape>>

/** A constant in Transformers' class, from which a file may differ. */
const VISION_NORM_EPSILON = 1e-6

/** @throws Error for a model of another kind, or one that Transformers' class cannot compute. */
export function readShape(language: SourceFile, encoder: SourceFile) {
  expectKind(language, 'architecture', language.find('general.architecture'), 'qwen3vl')
  const projector = encoder.find('clip.vision.projector_type') ?? encoder.find('clip.projector_type')
  expectKind(encoder, 'projector', projector, 'qwen3vl_merger')
  const number = (key: string) => language.number(`qwen3vl.${key}`)
  const ofVision = (key: string) => encoder.number(`clip.vision.${key}`)
  const epsilon = ofVision('attention.layer_norm_epsilon')
  if (Math.fround(epsilon) !== Math.fround(VISION_NORM_EPSILON)) {
    throw encoder.error(`its norms add ${epsilon}; Transformers' class adds ${VISION_NORM_EPSILON}`)
  }
  if (encoder.find('clip.use_gelu') !== true) throw encoder.error('its activation is not GELU')
  return {
    language: {
      width: number('embedding_length'),
      layers: number('block_count'),
      feedForward: number('feed_forward_length'),
      heads: number('attention.head_count'),
      keyValueHeads: number('attention.head_count_kv'),
      headWidth: number('attention.key_length'),
      contextTokens: number('context_length'),
      normEpsilon: shortest(number('attention.layer_norm_rms_epsilon')),
      ropeTheta: number('rope.freq_base'),
      /** Number of a head's rotation pairs for time, row and column. */
      ropeSections: language.numbers('qwen3vl.rope.dimension_sections').slice(0, 3),
    },
    vision: {
      width: ofVision('embedding_length'),
      layers: ofVision('block_count'),
      feedForward: ofVision('feed_forward_length'),
      heads: ofVision('attention.head_count'),
      /** Side of a patch in pixels. */
      patch: ofVision('patch_size'),
      /** Side in patches of the square that becomes one token. */
      merge: ofVision('spatial_merge_size'),
      deepstack: deepstackLayers(encoder.tensorNames),
      mean: encoder.numbers('clip.vision.image_mean').map(shortest),
      deviation: encoder.numbers('clip.vision.image_std').map(shortest),
    },
  }
}

function expectKind(file: SourceFile, what: string, kind: unknown, expected: string): void {
  if (kind !== expected) throw file.error(`its ${what} is '${kind}'; only Qwen3-VL's, '${expected}', can be exported`)
}

function deepstackLayers(tensors: readonly string[]): number[] {
  const layers = tensors.map((name) => /^v\.deepstack\.(\d+)\.fc1\.weight$/.exec(name)?.[1])
  return layers
    .filter((layer) => layer !== undefined)
    .map(Number)
    .sort((a, b) => a - b)
}

/** A float32 with the fewest digits that identify it: 1e-6, not 9.999999974752427e-7. */
function shortest(value: number): number {
  for (let digits = 1; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits))
    if (Math.fround(short) === value) return short
  }
  return value
}
