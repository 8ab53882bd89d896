import { readdir, writeFile } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import { makeFolder } from '../lib/make-folder.ts'
import { replaceFile } from '../lib/replace-file.ts'
import { localCard, type ModelCard } from '../models/card.ts'
import { chooseTemplate } from '../models/derive/chosen-template.ts'
import { countOf } from '../models/read/gguf-tensors.ts'
import { findWeights } from '../models/read/weight-files.ts'
import { imageProcessor, modelConfiguration, videoProcessor } from './configuration.ts'
import { languageWeights } from './language-weights.ts'
import { readShape } from './model-shape.ts'
import { readme } from './readme.ts'
import { type Weight, writeSafetensors } from './safetensors.ts'
import { openSource, type SourceFile } from './source-file.ts'
import { visionWeights } from './vision-weights.ts'
import { readVocabulary } from './vocabulary.ts'

export interface ExportedModel {
  /** Total number of parameters. */
  readonly parameters: number
  /** Whether the model has an audio encoder, which Transformers' class lacks. */
  readonly leavesAudio: boolean
}

const AUDIO_TENSOR = /^(a|mm\.a)\./

/**
 * Exports a model as a folder for Hugging Face Transformers: a `Qwen3VLForConditionalGeneration`, which vLLM also
 * serves.
 * @param folder does not exist yet, or is empty. It is written completely or not at all.
 * @throws Error for a model of another kind, and for a folder that cannot be written.
 */
export async function exportModel(card: ModelCard, folder: string, signal: AbortSignal): Promise<ExportedModel> {
  await expectVacant(folder)
  const { model, projector } = localCard(card).engine
  const { image } = card
  if (projector === undefined || image === undefined) {
    throw new Error(`${card.name} cannot be exported: it takes no images`)
  }
  const paths = [
    (await findWeights(card, 'engine.model', model)).path,
    (await findWeights(card, 'engine.projector', projector)).path,
  ] as const
  await using language = await openSource(paths[0])
  await using encoder = await openSource(paths[1])
  const { weights, texts } = await convert({ ...card, image }, language, encoder)
  const parameters = weights.reduce((sum, { shape }) => sum + countOf(shape), 0)
  const leavesAudio = encoder.untaken.length > 0
  const description = { card, files: paths.map((path) => basename(path)), parameters, leavesAudio }
  await replaceFile(resolve(folder), async (draft) => {
    await makeFolder(draft, 0o777)
    await writeSafetensors(join(draft, 'model.safetensors'), weights, signal)
    for (const [name, text] of Object.entries({ ...texts, 'README.md': readme(description) })) {
      await writeFile(join(draft, name), text)
    }
  })
  return { parameters, leavesAudio }
}

type ImageModelCard = ModelCard & Required<Pick<ModelCard, 'image'>>

interface Converted {
  readonly weights: readonly Weight[]
  /** By file name. */
  readonly texts: Readonly<Record<string, string>>
}

async function convert(card: ImageModelCard, language: SourceFile, encoder: SourceFile): Promise<Converted> {
  const shape = readShape(language, encoder)
  const vocabulary = readVocabulary(language)
  const weights = [...languageWeights(language, shape), ...visionWeights(encoder, shape)]
  expectNoneLeft(language, language.untaken)
  expectNoneLeft(
    encoder,
    encoder.untaken.filter((name) => !AUDIO_TENSOR.test(name)),
  )
  const template = await chooseTemplate(card.engine.chatTemplate, language.metadata, card)
  const named = new Map(weights.map((weight) => [weight.name, weight]))
  const stored = {
    type: named.get('model.language_model.embed_tokens.weight')!.type,
    tied: !named.has('lm_head.weight'),
    positions: named.get('model.visual.pos_embed.weight')!.shape[0]!,
  }
  const json = (value: object) => `${JSON.stringify(value, null, 2)}\n`
  return {
    weights,
    texts: {
      'config.json': json(modelConfiguration(shape, vocabulary, stored)),
      // Sampling is up to the request.
      'generation_config.json': json({ eos_token_id: vocabulary.endIds }),
      'tokenizer.json': json(vocabulary.tokenizer()),
      'tokenizer_config.json': json(vocabulary.configuration(shape.language.contextTokens)),
      'chat_template.jinja': template.source,
      'preprocessor_config.json': json(imageProcessor(shape, card.image, card.video)),
      'video_preprocessor_config.json': json(videoProcessor(shape, card.video)),
    },
  }
}

/** Omitted weights would change the model. */
function expectNoneLeft(file: SourceFile, names: readonly string[]): void {
  if (names.length > 0) throw file.error(`the tensor '${names[0]}' is none of Qwen3-VL's`)
}

async function expectVacant(folder: string): Promise<void> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw new Error(`${folder} ${error.code === 'ENOTDIR' ? 'is not a folder' : `cannot be read: ${error.code}`}`)
  })
  if (names.length > 0) throw new Error(`${folder} is not empty`)
}
