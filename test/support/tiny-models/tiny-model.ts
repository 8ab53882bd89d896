import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { FAMILIES, type FamilyName } from '../../../src/families/families.ts'
import type { Family } from '../../../src/families/family.ts'
import { type LocalModelCard, loadLocalCard } from '../../../src/models/card.ts'
import { type WrittenFile, writeGguf } from '../gguf-writer.ts'
import { CONTEXT_TOKENS } from './language.ts'

interface PictureSize {
  readonly width: number
  readonly height: number
}

/** A model of one family, with random weights: as the family computes, but small enough for a test. */
export interface TinyModel {
  readonly name: string
  readonly family: FamilyName
  /** What is special about how the family computes. */
  readonly about: string
  /** Control tokens that the family's tool calls consist of, where the family does not name them. */
  readonly printedTokens?: readonly string[]
  language(): WrittenFile
  /** Absent for a model of text alone. */
  encoder?(): WrittenFile
  /** The card's rule for images; absent for a model without them. */
  readonly image?: NonNullable<LocalModelCard['image']>
  /** The card's rule for audio; absent for a model without it. */
  readonly audio?: NonNullable<LocalModelCard['audio']>
  /** Sizes of two pictures that the encoder takes without resizing them. */
  readonly pictures?: readonly [PictureSize, PictureSize]
  /** What surrounds a user's turn in a prompt, up to the beginning of the reply. */
  readonly turn: readonly [begin: string, end: string]
}

export const CHAT_ML = ['<|im_start|>user\n', '<|im_end|>\n<|im_start|>assistant\n'] as const
export const CHAT_ML_TOKENS = ['<|im_start|>', '<|im_end|>']
export const CHAT_ML_TEMPLATE = template('<|im_start|>{{ message.role }}\n', '<|im_end|>\n', '<|im_start|>assistant\n')

/** A chat template that shows messages between two texts. */
export function template(begin: string, end: string, reply: string, start = ''): string {
  return (
    `${start}{% for message in messages %}${begin}{% if message.content is string %}{{ message.content }}{% else %}` +
    "{% for part in message.content %}{{ part.text if part.type == 'text' else part[part.type] }}{% endfor %}" +
    `{% endif %}${end}{% endfor %}{% if add_generation_prompt %}${reply}{% endif %}`
  )
}

/**
 * Writes a model's files and its card into a folder of its own.
 * @param engine fields of the card's `engine` that differ.
 */
export async function writeTinyModel(
  model: TinyModel,
  folder: string,
  engine: Partial<LocalModelCard['engine']> = {},
): Promise<LocalModelCard> {
  const directory = join(folder, model.name)
  await mkdir(directory, { recursive: true })
  await writeGguf(join(directory, 'model.gguf'), model.language())
  const encoder = model.encoder?.()
  if (encoder !== undefined) await writeGguf(join(directory, 'mmproj.gguf'), encoder)
  const modalities = ['text', ...(model.image ? ['image'] : []), ...(model.audio ? ['audio'] : [])]
  const { toolSyntax }: Family = FAMILIES[model.family]
  const card = {
    name: `Tiny ${model.name}`,
    license: 'none: noise',
    ownedBy: 'test',
    family: model.family,
    serves: [
      {
        id: `tiny-${model.name}`,
        name: `Tiny ${model.name}`,
        created: 0,
        capabilities: toolSyntax === null ? [] : ['tool_calling'],
        modalities,
        reasoning: false,
        maxContextTokens: engine.contextTokens ?? CONTEXT_TOKENS,
        maxOutputTokens: 1024,
      },
    ],
    engine: {
      type: 'local',
      model: 'model.gguf',
      ...(encoder === undefined ? {} : { projector: 'mmproj.gguf' }),
      contextTokens: CONTEXT_TOKENS,
      maxSequences: 8,
      repetition: null,
      ...(model.printedTokens === undefined ? {} : { printedTokens: model.printedTokens }),
      ...engine,
    },
    image: model.image,
    audio: model.audio,
  }
  const file = join(directory, 'card.json')
  await writeFile(file, `${JSON.stringify(card, null, 2)}\n`)
  return loadLocalCard(file)
}
